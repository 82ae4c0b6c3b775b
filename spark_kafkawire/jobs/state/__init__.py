"""What jobs remember between two runs, and how they keep a second run away from it."""
