#!/usr/bin/env python3
"""Whether the links of all Markdown files lead somewhere, and pages that list things list all of them."""

import collections
import fnmatch
import pathlib
import re
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Text in which nothing is a link: code, fenced, indented or inline.
CODE = re.compile(r"^(```|~~~).*?^\1|^(?: {4}|\t).*?$|(`+)(?!`).+?(?<!`)\2(?!`)", re.M | re.S)
LINK = re.compile(r"\]\(\s*<?([^()\s<>]+(?:\([^()\s]*\)[^()\s<>]*)?)>?(?:\s+\"[^\"]*\")?\s*\)|"
                  r"^\[[^\]]+\]:\s*(\S+)", re.M)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.I)


def pages():
    return sorted(path for pattern in ["*.md", "docs/*.md", ".github/*.md"] for path in ROOT.glob(pattern))


def links(text):
    return [urllib.parse.unquote(match[1] or match[2]) for match in LINK.finditer(CODE.sub("", text))]


def anchors(text):
    """The names that GitHub gives the headings of a page."""
    found, count = [], collections.Counter()
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", text, re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")
        found.append(f"{name}-{count[name]}" if count[name] else name)
        count[name] += 1
    return found


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        count = 0
        for page in pages():
            for link in links(page.read_text()):
                if EXTERNAL.match(link):
                    continue
                count += 1
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                with self.subTest(page=str(page.relative_to(ROOT)), link=link):
                    self.assertTrue(target.is_relative_to(ROOT), "leads out of the repository")
                    self.assertTrue(target.exists(), "no such file")
                    if anchor:
                        self.assertIn(anchor, anchors(target.read_text()))
        self.assertGreater(count, 100)

    def test_the_index_lists_each_page_in_one_table(self):
        index = ROOT / "docs/README.md"
        listed = [match for match in re.findall(r"^\| \[[^\]]*\]\(([^)#]*)\)", index.read_text(), re.M)]
        there = [page.name for page in pages() if page.parent == index.parent and page != index]
        self.assertEqual(sorted(listed), sorted(there))

    def test_recipes_and_policies_are_all_described(self):
        patterns = re.findall(r"`([\w.*]+\.yml)`", (ROOT / "docs/models.md").read_text())
        for recipe in ROOT.glob("configs/*.yml"):
            self.assertTrue(any(fnmatch.fnmatch(recipe.name, pattern) for pattern in patterns), recipe.name)
        policies = re.findall(r"`(\w+)`", (ROOT / "docs/policies.md").read_text())
        table = (ROOT / "longshore/offload/policy/policy.cpp").read_text()
        named = re.findall(r'^ +\{\{"(\w+)",', table, re.M)
        self.assertGreater(len(named), 8)
        for policy in [*named, "none", "full", "custom", "auto"]:
            self.assertIn(policy, policies)

    def test_what_is_a_link(self):
        text = "a [b](c.md#d) `[no](x)` ![image](e.svg) [f](https://g) \n\n    [code](no)\n\n[h]: i.md\n"
        self.assertEqual(links(text), ["c.md#d", "e.svg", "https://g", "i.md"])
        self.assertEqual(anchors("# From C++\n## `remat_policy: auto`\n## [A b](c.md)'s\n# From C\n### From c\n"),
                         ["from-c", "remat_policy-auto", "a-bs", "from-c-1", "from-c-2"])


if __name__ == "__main__":
    unittest.main()
