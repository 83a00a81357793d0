"""Makes the pages of the site from the pages of the repository, which are written for GitHub.

MkDocs calls the functions whose names begin with `on_`. Pages outside of docs/ become part of the
site, links between all of them are adjusted, and Markdown that GitHub reads differently is
rewritten. Links that lead to no page are left alone: MkDocs reports them.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = "examples/session_store"
# Pages outside of docs/, by their path in the repository.
PAGES: Final = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "tests/README.md": "tests.md",
    EXAMPLE: "example.md",
}
_EXAMPLE_TEXT: Final = f"""An application and its tests, in `{EXAMPLE}/` of the repository. [Tests
with pytest](pytest.md) explains the fixtures, and [Time to live](ttl.md) what restarts a lifetime:
every successful write, but no read. In a checkout, after `make install`, run the tests with

```sh
.venv/bin/python -m pytest {EXAMPLE}
```"""
_PATHS: Final = {page: path for path, page in PAGES.items()}
_FENCED: Final = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
# What follows the language is for the tests: "run" and "output".
_MARK: Final = re.compile(r"^( *```\w+) .*$", re.MULTILINE)
_CODE_OR_LINK: Final = re.compile(r"(?P<code>`(?:[^`\n]|\n(?!\n))+`)|\]\((?P<link>[^)\s]+)\)")
# GitHub nests what is indented like the text of its list item; Python-Markdown needs four spaces.
_INDENT: Final = re.compile(r"^ {2,3}(?=\S)", re.MULTILINE)
_LINE_START: Final = re.compile(r"^(?=.)", re.MULTILINE)
_EXTERNAL: Final = re.compile(r'<a [^>]*href="(https?://[^"]+)"')
_SEARCH: Final = '<div class="md-search" data-md-component="search" role="dialog"'

_external_links: set[str] = set()


def on_config(config: Any) -> Any:
    from pymdownx.slugs import slugify

    # The names of headings are those of GitHub.
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify(case="lower")
    _external_links.clear()
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path, page in PAGES.items():
        if path == EXAMPLE:
            files.append(File.generated(config, page, content=example_page(ROOT / path)))
        else:
            files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    icon = ROOT / "src" / "perseid" / "portal" / "meteor.svg"
    files.append(File.generated(config, "images/meteor.svg", abs_src_path=str(icon)))
    style = Path(__file__).parent / "site.css"
    files.append(File.generated(config, "site.css", abs_src_path=str(style)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return for_site(markdown, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    _external_links.update(_EXTERNAL.findall(html))
    return html


def on_post_page(output: str, **_: Any) -> str:
    """Names the search dialog of the theme for screen readers."""
    return output.replace(_SEARCH, f'{_SEARCH} aria-label="Search"')


def on_post_build(config: Any) -> None:
    """Lists the links to other sites next to the site: no test follows them."""
    listed = Path(config.site_dir).parent / "external-links.txt"
    listed.write_text("".join(f"{link}\n" for link in sorted(_external_links)))


def example_page(folder: Path) -> str:
    """A page that shows the files of an example."""
    files = "\n".join(
        f"## {file.name}\n\n```python\n{file.read_text()}```\n"
        for file in sorted(folder.glob("*.py"))
    )
    return f"# Example: {folder.name.replace('_', ' ')}\n\n{_EXAMPLE_TEXT}\n\n{files}"


def for_site(markdown: str, page: str) -> str:
    """The text of a page of the site in the form that Python-Markdown reads like GitHub."""
    parts = []
    position = 0
    for fenced in _FENCED.finditer(markdown):
        parts.append(_prose_for_site(markdown[position : fenced.start()], page))
        parts.append(_fence_for_site(fenced[0], len(fenced[1])))
        position = fenced.end()
    return "".join([*parts, _prose_for_site(markdown[position:], page)])


def _fence_for_site(text: str, indent: int) -> str:
    """Without the mark, and part of its list item if it is indented."""
    missing = " " * (4 - indent) if 0 < indent < 4 else ""
    return _LINE_START.sub(missing, _MARK.sub(r"\1", text))


def _prose_for_site(text: str, page: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match["link"] is not None:
            return f"]({link_for_site(match['link'], page)})"
        line_start = text.rfind("\n", 0, match.start()) + 1
        is_cell = text.startswith("|", line_start)
        return match[0].replace("\\|", "|") if is_cell else match[0]

    return _INDENT.sub("    ", _CODE_OR_LINK.sub(replaced, text))


def link_for_site(link: str, page: str) -> str:
    """Where a link of a page leads in the site."""
    path, hash_sign, anchor = link.partition("#")
    if "://" in link or not path:
        return link
    source = _PATHS.get(page, f"docs/{page}")
    target = os.path.normpath(os.path.join(os.path.dirname(source), path))
    if target not in PAGES and not target.startswith("docs/"):
        return link
    site_path = PAGES.get(target, target.removeprefix("docs/"))
    return os.path.relpath(site_path, os.path.dirname(page)) + hash_sign + anchor
