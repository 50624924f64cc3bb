#!/usr/bin/env python3
"""The reference of the library's headers: what Doxygen is given of a header, and that it writes pages
without a warning in which the headers' comments stand. Without Doxygen, what it is given alone.

usage: reference_test.py BUILD_FOLDER
"""

import html
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cmake/reference"))
import comments  # noqa: E402


def converted(text):
    return "\n".join(comments.converted(text.split("\n")))


class Comments(unittest.TestCase):
    def test_the_first_is_the_files(self):
        self.assertEqual(converted("// A <b> unit.\n// More.\n#pragma once\n"),
                         "/// @file\n/// A \\<b\\> unit.\n/// More.\n#pragma once\n\n")

    def test_before_declarations_and_behind_them(self):
        given = "#pragma once\n// What\n// f does.\nint f();  // 1 or 2\n\nint a = 1;  // of a\n            // too\nint b;\n"
        made = "#pragma once\n/// What\n/// f does.\nint f();  ///< 1 or 2\n\nint a = 1;  ///< of a\n            ///< too\nint b;\n\n"
        self.assertEqual(converted(given), made)

    def test_what_documents_nothing_is_left_alone(self):
        for given in ["#pragma once\n// --- a section\nint f();\n", "#pragma once\n// of the group\n\nint f();\n",
                      '#include "a.h"  // why\n', 'const char* f = "http://a";\n', "#pragma once\n// to the end\n}\n"]:
            self.assertNotIn("///", converted(given), given)


class Reference(unittest.TestCase):
    @unittest.skipUnless(shutil.which("doxygen"), "no Doxygen: scripts/setup --docs")
    def test_has_the_comments_and_no_warnings(self):
        (BUILD / "reference").mkdir(exist_ok=True)
        run = subprocess.run(["doxygen", BUILD / "Doxyfile"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))
        for page, words in [("classlongshore_1_1trainer_1_1Trainer", "Forward, backward and update."),
                            ("classlongshore_1_1offload_1_1ValueAndGrad", "The sum of losses and auxiliary losses."),
                            ("structlongshore_1_1models_1_1Op", "Output types; throws InternalError"),
                            ("structlongshore_1_1offload_1_1Policy", "of values without a label, or not in")]:
            text = (BUILD / f"reference/html/{page}.html").read_text()
            text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", text)))
            self.assertIn(words, text, page)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
