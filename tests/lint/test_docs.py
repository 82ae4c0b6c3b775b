"""The pages agree with the code: their tables, links, commands and the files that they name."""

from __future__ import annotations

import ast
import configparser
import importlib.util
import pkgutil
import re
import runpy
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

import spark_kafkawire
from spark_kafkawire import errors
from spark_kafkawire.commands import COMMANDS
from spark_kafkawire.errors import KafkaWireError, OptionError
from spark_kafkawire.model import Generation
from spark_kafkawire.options import OPTIONS, STREAM_OPTIONS, Option, ReadOptions
from spark_kafkawire.options.option import is_kafka_property, pass_over
from tests.support.browser import Browser, find_browser
from tests.support.cases import for_each
from tests.support.pages import (
    DOCS,
    PAGES,
    ROOT,
    Block,
    anchor,
    blocks,
    code_of,
    headings_of,
    links_of,
    section_of,
    site_anchor,
    table_after,
    text_of,
)

PYTHON: Final = ["spark_kafkawire/**/*.py", "tests/**/*.py"]
SHELL_BLOCKS = blocks("sh")
OPTION_NAMES = {option.name for option in (*OPTIONS, *STREAM_OPTIONS)}
PACKAGE: Final = ROOT / "spark_kafkawire"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
MAKE_TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
#: The column "brokers" of the tables of options.
BROKERS: Final = {None: "all", Generation.V07: "0.7", Generation.MODERN: "0.8 on"}
#: What may be said after ``kafkawire``: NAME is that of any command.
KAFKAWIRE_WORDS = {*COMMANDS, "help", "version", "path", "NAME"}
#: What a word of a command, or code in a sentence, looks like that is a file or folder of the repository.
FILE_WORD = re.compile(r"[\w./-]+\.(py|md|cfg|toml|json|properties|conf)")
REPOSITORY_PATH = re.compile(r"(spark_kafkawire|tests|jobs|docs|\.ci)/[\w./-]*")
#: ``someOption=value`` and ``kafka.some.option``, with a value or without.
OPTION_WORD = re.compile(r"([a-z]+[A-Z][\w.]*(?==)|(?:kafka|zookeeper)\.[a-z][a-z.]*[a-z])(=.*)?")


def test_blocks_are_of_a_language_that_is_looked_at() -> None:
    known = blocks("python", "sh", "text", "yaml", "diff")
    assert sum(text_of(page).count("\n```") for page in PAGES) == 2 * len(known)


def test_the_two_sides_of_a_diff_are_programs_that_differ_in_the_format_only() -> None:
    [diff] = blocks("diff")
    old, new = (
        re.sub(rf"^[{left}].*\n|^[ {right}]", "", diff.text, flags=re.MULTILINE)
        for left, right in ("+-", "-+")
    )
    assert old != new
    assert ast.dump(ast.parse(old.replace('"kafka"', '"kafkawire"'))) == ast.dump(ast.parse(new))


@for_each("block", SHELL_BLOCKS, ids=str)
def test_a_shell_block_names_only_what_exists(block: Block) -> None:
    for command in block.commands:
        words = shlex.split(command, comments=True)
        if words[:1] == ["make"]:
            asked = {word for word in words[1:] if "=" not in word}
            assert asked <= MAKE_TARGETS, command
        for name in re.findall(r"\bkafkawire path ([\w-]+)", command):
            assert name in COMMANDS, command
        if words[:1] == ["kafkawire"]:
            assert words[1] in KAFKAWIRE_WORDS, command
        if "-m" in words:
            assert importlib.util.find_spec(words[words.index("-m") + 1]), command
        for word in words:
            assert not FILE_WORD.fullmatch(word) or (ROOT / word).exists(), command


@for_each("page", PAGES)
def test_a_page_links_only_to_what_exists(page: str) -> None:
    for link in links_of(page):
        if link.startswith("https://"):
            continue
        path, _, named = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        if named:
            anchors = [anchor(heading) for heading in headings_of(str(target.resolve().relative_to(ROOT)))]
            assert named in anchors, link


def test_pages_have_the_address_of_the_project() -> None:
    [address] = re.findall(
        r'^REPOSITORY: Final = "(.+)"$', (ROOT / "setup.py").read_text("utf-8"), re.MULTILINE
    )
    for page in (*PAGES, "SECURITY.md"):
        shown = re.findall(r"https://[\w.]+/[\w-]+/spark-kafkawire\b", text_of(page))
        assert set(shown) <= {address}, page


@for_each("page", [page for page in PAGES if page.startswith("docs/")])
def test_a_page_of_the_site_links_to_no_file_outside_of_it(page: str) -> None:
    inside = [link.partition("#")[0] for link in links_of(page) if not link.startswith("https://")]
    assert [link for link in inside if not (DOCS / link).resolve().is_relative_to(DOCS)] == []


@for_each("page", PAGES)
def test_a_heading_has_one_anchor_and_the_same_on_the_site(page: str) -> None:
    headings = headings_of(page)
    assert [anchor(heading) for heading in headings] == [site_anchor(heading) for heading in headings]
    assert len({anchor(heading) for heading in headings}) == len(headings)


@for_each("entrance", ["README.md", "docs/index.md"])
def test_every_page_is_reached_from_the_entrance(entrance: str) -> None:
    reached, result = set[str](), {entrance}
    while result:
        reached |= result
        result = {target for page in result for target in pages_linked_from(page)} - reached
    # The reference of the site is empty where README is read: docstrings make it.
    left_out = {"index.md", "api.md"} if entrance == "README.md" else {"index.md"}
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md") if page.name not in left_out} <= reached


def pages_linked_from(page: str) -> set[str]:
    files = {link.partition("#")[0] for link in links_of(page) if not link.startswith("https://")}
    paths = {((ROOT / page).parent / file).resolve() for file in files if file.endswith(".md")}
    return {str(path.relative_to(ROOT)) for path in paths}


def test_the_reference_has_all_that_is_public() -> None:
    from spark_kafkawire import changes, functions, groups, lineage, metrics, progress, sinks, streaming

    named = re.findall(r"^::: ([\w.]+)$", text_of("docs/api.md"), re.MULTILINE)
    public = {
        f"{module.__name__}.{name}"
        for module in (
            spark_kafkawire,
            functions,
            changes,
            sinks,
            streaming,
            groups,
            progress,
            metrics,
            lineage,
        )
        for name in module.__all__
    }
    kinds = (errors.Action, *(kind for kind in vars(errors).values() if is_error(kind)))
    public |= {f"spark_kafkawire.errors.{kind.__name__}" for kind in kinds}
    public |= {"spark_kafkawire.broker.EmbeddedCluster", "spark_kafkawire.version.VERSION"}
    assert sorted(named) == sorted(public)
    assert all(pkgutil.resolve_name(name) is not None for name in named)


def is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, KafkaWireError)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    settings = (ROOT / ".ci" / "mkdocs.yml").read_text("utf-8")
    navigation = re.findall(r"^ +- ([\w.-]+\.md)$", settings, re.MULTILINE)
    assert sorted(navigation) == sorted(page.name for page in DOCS.glob("*.md"))


@for_each("page", PAGES)
def test_code_in_a_sentence_names_only_what_exists(page: str) -> None:
    for code in code_of(page):
        words = code.split()
        if words[0] == "make" and len(words) > 1:
            assert words[1] in MAKE_TARGETS, code
        if words[0] == "kafkawire" and len(words) > 1:
            assert words[1] in KAFKAWIRE_WORDS, code
        if REPOSITORY_PATH.fullmatch(words[0]):
            assert (ROOT / words[0]).exists(), code
        if (option := OPTION_WORD.fullmatch(code)) and option[1] not in OPTION_NAMES:
            assert is_refused(option[1]), code


def is_refused(name: str) -> bool:
    """True if a read or a write refuses a property of Kafka's clients by its name."""
    refusals = 0
    for read in (True, False):
        try:
            pass_over(name, read=read)
        except OptionError:
            refusals += 1
    return is_kafka_property(name) and refusals > 0


@for_each(("title", "read", "write"), [("both", True, True), ("read", True, False), ("write", False, True)])
def test_an_option_table_is_that_of_the_code(title: str, read: bool, write: bool) -> None:
    known = [option for option in OPTIONS if (option.sides.read, option.sides.write) == (read, write)]
    assert table_after("docs/options.md", f"<!-- options: {title} -->") == rows_of(known)


def test_the_table_of_streams_is_that_of_the_code() -> None:
    assert table_after("docs/streaming.md", "<!-- options: stream -->") == rows_of(STREAM_OPTIONS)


def rows_of(options: Iterable[Option[Any]]) -> list[list[str]]:
    return [[item.name, BROKERS[item.generation], item.default or "-", item.meaning] for item in options]


@for_each("page", ["docs/services.md", "docs/security.md", "docs/schema-registry.md"])
def test_a_dict_of_options_is_one_that_a_read_takes(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables have a value here. The stores are files of another machine."""
    for variable in re.findall(r"\$\{env:(\w+)\}", text_of(page)):
        monkeypatch.setenv(variable, "a value from the environment")
    shown = dicts_of(page)
    assert shown
    for name, options in shown.items():
        assert set(options) <= OPTION_NAMES, name
        if not any("." in key for key in options):
            continue  # options of a function, which connects to nothing
        taken = {
            key: value for key, value in options.items() if not re.search(r"\.(trust|key)store|key\.", key)
        }
        assert ReadOptions.parse({"kafka.bootstrap.servers": "broker:9092", "subscribe": "t", **taken}), name


def dicts_of(page: str) -> dict[str, dict[str, str]]:
    """The dicts of a page's Python by their names. They use texts and dicts above them."""
    known: dict[str, Any] = {}
    for block in blocks("python"):
        for line in ast.parse(block.text).body if block.page == page else ():
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Dict | ast.Constant):
                exec(ast.unparse(line), {}, known)
    return {name: value for name, value in known.items() if isinstance(value, dict)}


def test_the_table_of_folders_is_in_the_order_in_which_they_may_import() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg", "utf-8")
    layers = re.findall(r"\w+", contracts["importlinter:contract:layers"]["layers"])
    folders = [row[0] for row in table_after("docs/architecture.md", "<!-- folders -->")]
    assert folders == layers


def test_the_table_of_tests_has_every_folder() -> None:
    rows = table_after("tests/README.md", "<!-- rooms -->")
    named = [name for row in rows for name in re.findall(r"\w+", row[0])]
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*") if "__pycache__" not in path.parts}
    assert sorted(named) == sorted(folders)


def test_the_table_of_helpers_names_modules_that_exist() -> None:
    helpers = {code for code in code_of("tests/README.md") if re.fullmatch(r"\w+\.py", code)}
    assert len(helpers) > 10
    assert {name for name in helpers if not (ROOT / "tests" / "support" / name).is_file()} == set()


#: Files at most in each path of ``docs/architecture.md``.
PATHS: Final = {
    "One option": 8,
    "One fetched byte to an Arrow batch": 20,
    "One row to a committed transaction": 20,
    "One micro-batch": 14,
    "One login": 9,
    "One job": 14,
}
#: A row of a path: a file, and what the files before it call there.
STEP = re.compile(r"^\d+\. `spark_kafkawire/([\w/]+\.py)`: `([\w.]+)`", re.MULTILINE)


def test_all_paths_are_checked() -> None:
    listed = section_of("docs/architecture.md", "Reader paths")
    assert re.findall(r"^### (.+)$", listed, re.MULTILINE) == list(PATHS)


@for_each("path", PATHS)
def test_each_file_of_a_path_is_connected_with_one_before_it(path: str) -> None:
    section = section_of("docs/architecture.md", "Reader paths").partition(f"### {path}\n")[2]
    steps = STEP.findall(section.partition("\n### ")[0])
    files = [file for file, _ in steps]
    assert 1 < len(set(files)) == len(files) <= PATHS[path]
    for at, step in enumerate(steps):
        tree: list[Any] = [ast.parse(source_of(step))]
        for part in step[1].split("."):
            tree = [node for parent in tree for node in parent.body if part in names_of(node)]
        assert tree, step
        assert at == 0 or any(uses(before, step) or uses(step, before) for before in steps[:at]), step


def source_of(step: tuple[str, str]) -> str:
    return (PACKAGE / step[0]).read_text("utf-8")


def uses(user: tuple[str, str], used: tuple[str, str]) -> bool:
    """True if the file of a step imports that of another one, and names what is called there."""
    file, name = used
    module = "spark_kafkawire." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    # Some folders export names of their modules.
    homes = {module, f"{module.rpartition('.')[0]}.{name.partition('.')[0]}"}
    source = source_of(user)
    called = re.search(rf"\b{name.rpartition('.')[2]}\b", source)
    return called is not None and not homes.isdisjoint(imports_of(source, user[0]))


def imports_of(source: str, file: str) -> set[str]:
    """Modules of the package that a file may import at its start or in a function, by their full names."""
    package = ["spark_kafkawire", *Path(file).parent.parts]
    result = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            result |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return result


def names_of(node: Any) -> set[str]:
    """Names that a statement defines."""
    targets = [*getattr(node, "targets", ()), *filter(None, [getattr(node, "target", None)])]
    return {getattr(node, "name", ""), *(ast.unparse(target) for target in targets)}


@for_each("kind", headings_of("docs/adding.md")[1:])
def test_lists_of_what_to_add_have_files_and_names_of_the_code(kind: str) -> None:
    items = items_of(kind)
    assert items
    for paths, names in items:
        assert [path for path in paths if not (ROOT / path).exists()] == []
        text = "\n".join(source.read_text("utf-8") for path in paths for source in sources_of(ROOT / path))
        assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


#: How an example of ``docs/adding.md`` is known to files, and where these are.
KNOWN_BY: Final = {
    "An API": (r"\bCREATE_TOPICS\b|\bCreateTopics", PYTHON),
    "A wire format": (
        r'\bWireFormat\.PROPOSAL\b|\bPROPOSAL = |\A"""The New Wire Format Proposal',
        ["spark_kafkawire/**/*.py"],
    ),
    "A codec": (r"\bZSTD\b", ["spark_kafkawire/**/*.py"]),
    "A login": (r"\bPLAIN\b(?! or)", ["spark_kafkawire/net/logins/**/*.py"]),
    "An option": (r"\bfetchesInFlight\b|\bfetches_in_flight\b", ["spark_kafkawire/**/*.py", "docs/o*.md"]),
}


@for_each("kind", KNOWN_BY)
def test_a_list_of_what_to_add_names_all_files_that_know_its_example(kind: str) -> None:
    pattern, where = KNOWN_BY[kind]
    files = [path for glob in where for path in ROOT.glob(glob)]
    known = {path for path in files if re.search(pattern, path.read_text("utf-8"))}
    named = {ROOT / path for paths, _ in items_of(kind) for path in paths[:1]}
    assert {str(path.relative_to(ROOT)) for path in known ^ (named & set(files))} == set()


def items_of(kind: str) -> list[tuple[list[str], list[str]]]:
    """The items of a list: the files that each names, that to change first, and the names in them."""
    lines = re.findall(r"^- (.*(?:\n  .*)*)", section_of("docs/adding.md", kind), re.MULTILINE)
    codes = [re.findall(r"`([^`]+)`", line) for line in lines]
    return [
        (
            [code for code in item if REPOSITORY_PATH.fullmatch(code) or FILE_WORD.fullmatch(code)],
            [code for code in item if re.fullmatch(r"[A-Za-z_]\w*", code)],
        )
        for item in codes
    ]


def sources_of(path: Path) -> list[Path]:
    """A file, or the files of a folder."""
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def test_the_table_of_errors_has_all_that_travel() -> None:
    classes = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, KafkaWireError) and kind is not KafkaWireError
    }
    shown = [row[0] for row in table_after("docs/errors.md", "<!-- errors -->")]
    assert sorted(shown) == sorted(classes)


# --- `.ci/diagrams.py`: each drawing of the pages comes from its text, and every text is on a page ---

TEXTS: Final = sorted((DOCS / "diagrams").glob("*.txt"))
IMAGES: Final = DOCS / "images"
#: How far right each text of a drawing reaches beyond the smallest box around its middle, pixels.
OVERFLOW: Final = """
(() => {
  const boxes = [...document.querySelectorAll("rect")].map(rect => rect.getBBox());
  return [...document.querySelectorAll("text")].map(text => {
    const at = text.getBBox(), x = at.x + at.width / 2, y = at.y + at.height / 2;
    const around = boxes.filter(b => b.x <= x && x <= b.x + b.width && b.y <= y && y <= b.y + b.height);
    const box = around.reduce((least, b) => b.width * b.height < least.width * least.height ? b : least);
    return Math.max(box.x - at.x, at.x + at.width - box.x - box.width);
  });
})()
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / ".ci" / "diagrams.py"))


@for_each("text", TEXTS, ids=lambda text: text.stem)
def test_a_drawing_is_what_its_text_gives(text: Path, script: dict[str, Any]) -> None:
    for name, drawing in script["files_of"](text.stem, text.read_text("utf-8")).items():
        assert (IMAGES / name).read_text("utf-8") == drawing, "run make diagrams"
        ElementTree.fromstring(drawing)


def test_every_drawing_has_a_text_and_a_page() -> None:
    drawings = {path.name for path in IMAGES.glob("*.svg")}
    shown = {Path(link).name for page in PAGES for link in links_of(page) if link.endswith(".svg")}
    assert drawings == shown
    assert {re.sub(r"(-light|-dark)?\.svg$", "", name) for name in drawings} == {text.stem for text in TEXTS}


def test_a_drawing_for_one_scheme_has_the_colours_of_that_scheme_whatever_the_reader_prefers() -> None:
    light, dark = ((IMAGES / f"overview-{item}.svg").read_text("utf-8") for item in ("light", "dark"))
    papers = [re.findall(r"\.paper\{fill:(#\w+)\}", text)[-1] for text in (light, dark)]
    assert papers == ["#fff", "#1e2129"]
    assert "prefers-color-scheme" not in light + dark


@for_each(
    ("text", "error"),
    [
        (
            "columns: 60\nrow: a\nbox a: incomprehensibilities",
            r"'incomprehensibilities' takes \d+ of 42 pixels",
        ),
        ("columns: 300 300\nrow: a b\nbox a: A\nbox b: B", "650 pixels wide, more than 460"),
        ("columns: 60 60\nrow: a\nbox a: A", "row 1 has 1 places, not 2"),
        ("columns: 60\nrow: a\nbox a: A\na -> b", "there is no box 'b'"),
        ("columns: 60\nrow: b\nbox a: A", "there is no box 'b'"),
        ("columns: 60\ncircle a: A", "a line that is not known: 'circle a: A'"),
        ("columns: 60\n?", r"a line that is not known: '\?'"),
        ("actors: A, B\nA -> C: no", r"'C' is not one of \['A', 'B'\]"),
        ("actors: A, B\nbox a: A", "a step that is not known: 'box'"),
    ],
)
def test_a_text_that_cannot_be_drawn_is_refused(text: str, error: str, script: dict[str, Any]) -> None:
    with pytest.raises(script["DiagramError"], match=error):
        script["drawn"](text)


def test_text_is_escaped(script: dict[str, Any]) -> None:
    drawing = script["drawn"]("title: a < b\ncolumns: 90\nrow: a\nbox a: A & B")
    root = ElementTree.fromstring(drawing)
    assert re.findall(r"\S+", "".join(root.itertext()))[:3] == ["a", "<", "b"]
    assert "A & B" in [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.skipif(find_browser() is None, reason="no browser is installed")
def test_no_text_is_wider_than_its_box() -> None:
    with Browser() as browser:
        for drawing in sorted(IMAGES.glob("*.svg")):
            browser.open(drawing)
            overflow = browser.run(OVERFLOW)
            assert overflow, drawing.stem
            assert max(overflow) <= 0, drawing.stem
