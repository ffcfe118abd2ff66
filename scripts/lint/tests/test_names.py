"""The check of names on small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import names  # noqa: E402

NOT_USED = {"misc", "Thing"}


class Names(unittest.TestCase):
    def found(self, files, shared=""):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            return sorted(names.check(Path(folder), NOT_USED, names.shared_names(shared)))

    def flags(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            return list(names.flags_in_libraries(Path(folder)))

    def test_names_that_are_not_used_are_found(self):
        found = self.found({"crates/a/src/misc.rs": "struct Thing;\n", "crates/a/src/good.rs": "pub struct Things;\n"})
        self.assertEqual(len(found), 2)
        self.assertIn("'Thing' is not used as the name of a type", found[0])
        self.assertIn("'misc' is not used as the name of a module", found[1])

    def test_a_public_type_has_a_name_of_its_own(self):
        files = {"crates/a/src/x.rs": "pub struct Error;\nstruct Own;\n", "crates/b/src/x.rs": "pub enum Error {}\nstruct Own;\n"}
        self.assertEqual(len(self.found(files)), 1)
        self.assertIn("a, b", self.found(files)[0])
        self.assertEqual(self.found(files, "# shared\nError\n"), [])

    def test_a_shared_name_that_is_not_shared_any_more_is_found(self):
        self.assertIn("Error is not", self.found({"crates/a/src/x.rs": "pub struct Error;\n"}, "Error\n")[0])

    def test_a_text_of_a_library_that_names_a_flag_is_found(self):
        text = 'fn f() {\n    let c = \'"\';\n    g("choose \\"x\\" with --scratch"); // "or --scratch"\n}\n'
        files = {"docs/commands.md": "`--scratch` `--no-prefetch`", "crates/a/src/x.rs": text, "crates/poolwright/src/x.rs": text}
        found = self.flags(files)
        self.assertEqual(len(found), 1)
        self.assertIn("crates/a/src/x.rs:3: a library's text names the flag --scratch", found[0])

    def test_arguments_comments_tests_and_flags_of_other_programs_are_allowed(self):
        allowed = [
            'g(["--scratch"]);',
            '/// as --scratch has it\n',
            'g("cp --sparse=always a b, --scratch-pad");',
            'impl ReportedError for E {\n    fn hint(&self) -> Option<String> {\n        f("use --scratch")\n    }\n}\n',
            'g();\n#[cfg(test)]\nmod tests {\n    g("with --scratch");\n}\n',
        ]
        for text in allowed:
            self.assertEqual(self.flags({"docs/commands.md": "`--scratch`", "crates/a/src/x.rs": text}), [], text)
        self.assertEqual(len(self.flags({"docs/commands.md": "`--scratch`", "crates/a/src/x.rs": 'g(r#"a "b" --scratch"#)'})), 1)


if __name__ == "__main__":
    unittest.main()
