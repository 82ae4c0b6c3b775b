"""The report as one HTML page, with its own styles and script."""
