"""The layer check on small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import layers  # noqa: E402

TABLE = "| directory | contents | may use |\n| --- | --- | --- |\n| `crates/a` | text | {a} |\n| `crates/b` | text | nothing |\n"


class Layers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def workspace(self, stated, dependencies=""):
        self.write("docs/architecture.md", TABLE.format(a=stated))
        self.write("crates/a/Cargo.toml", f"[package]\nname = 'poolwright-a'\n[dependencies]\nserde = '1'\n{dependencies}")
        self.write("crates/b/Cargo.toml", "[package]\nname = 'poolwright-b'\n")
        return list(layers.dependencies(self.root))

    def test_dependencies_are_those_of_the_table(self):
        uses_b = "poolwright-b.workspace = true\n"
        self.assertEqual(self.workspace("b", uses_b), [])
        self.assertEqual(self.workspace("nothing"), [])

    def test_an_undocumented_and_an_unused_dependency_are_found(self):
        self.assertIn("depends on b", self.workspace("nothing", "poolwright-b.workspace = true\n")[0])
        self.assertIn("may use b, and does not", self.workspace("b")[0])

    def test_a_crate_without_a_row_and_a_row_without_a_crate_are_found(self):
        self.write("crates/c/Cargo.toml", "[package]\nname = 'poolwright-c'\n")
        self.assertIn("crates/c has no row", self.workspace("nothing")[0])
        (self.root / "crates/c/Cargo.toml").unlink()
        (self.root / "crates/b/Cargo.toml").unlink()
        self.assertIn("there is no crates/b", list(layers.dependencies(self.root))[0])

    def test_tests_that_the_manifest_excludes_are_found(self):
        self.write("crates/a/Cargo.toml", "[lib]\ndoctest = false\n[[bin]]\nname = 'x'\npath = 'src/bin/x.rs'\ntest = false\n")
        self.write("crates/a/src/lib.rs", "#[test]\nfn counts() {}\n")
        self.write("crates/a/src/bin/x.rs", "fn main() {}\n")
        self.write("crates/a/src/bin/y.rs", "#[test]\nfn counts() {}\n")
        self.assertEqual(list(layers.left_out(self.root)), [])
        self.write("crates/a/src/inner.rs", "/// ```\n/// assert!(true);\n/// ```\npub fn f() {}\n")
        self.write("crates/a/src/bin/x.rs", "fn main() {}\n#[test]\nfn left_out() {}\n")
        self.assertEqual(["doctest = false" in line for line in layers.left_out(self.root)], [True, False])

    def test_a_string_that_continues_on_the_next_line_hides_nothing(self):
        text = '"cannot use {it}: \\\n      continue"'
        self.write("crates/a/src/lib.rs", "mod x;\nmod y;\n")
        self.write("crates/a/src/x.rs", f"const TEXT: &str = {text};\nuse crate::y::B;\npub struct A;\nconst NEXT: &str = \"\";\n")
        self.write("crates/a/src/y.rs", "pub struct B;\nfn f() { let _ = super::x::A; }\n")
        self.assertEqual(len(list(layers.cycles(self.root / "crates/a"))), 1)

    def test_modules_in_a_circle_are_found(self):
        self.write("crates/a/src/lib.rs", "mod x;\nmod y;\n")
        self.write("crates/a/src/x.rs", "use crate::y::{self, B};\npub struct A;\n")
        self.write("crates/a/src/y.rs", "pub struct B;\nfn f() { let _ = super::x::A; }\n")
        self.assertEqual(list(layers.cycles(self.root / "crates/a")),
                         ["crates/a: modules that use each other in a circle: x, y"])

    def test_parents_comments_strings_and_tests_do_not_count(self):
        self.write("crates/a/src/lib.rs", "pub mod x;\nmod y;\npub struct Root;\n")
        self.write("crates/a/src/x.rs", "mod inner;\nuse crate::y::B;\nuse crate::Root;\n")
        self.write("crates/a/src/x/inner.rs", "use super::C;\n")
        self.write("crates/a/src/y.rs", "pub struct B; // crate::x::A\nconst S: &str = \"crate::x\";\n"
                                        "#[cfg(test)]\nmod tests {\n    use crate::x::A;\n}\n")
        self.assertEqual(list(layers.cycles(self.root / "crates/a")), [])

    def test_a_reexport_leads_to_the_module_that_it_names(self):
        self.write("crates/a/src/lib.rs", "mod x;\nmod y;\npub use x::A;\n")
        self.write("crates/a/src/x.rs", "use crate::y::B;\npub struct A;\n")
        self.write("crates/a/src/y.rs", "use crate::A;\npub struct B;\n")
        self.assertEqual(len(list(layers.cycles(self.root / "crates/a"))), 1)


if __name__ == "__main__":
    unittest.main()
