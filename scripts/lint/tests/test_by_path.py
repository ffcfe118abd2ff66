"""The check of calls by path on small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import by_path  # noqa: E402


class ByPath(unittest.TestCase):
    def found(self, files, allowed=""):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(folder) / path).write_text(text)
            return by_path.check(Path(folder), allowed)

    def test_calls_by_path_are_found(self):
        rejected = {
            "fs::write(a, b);": "write",
            "std::fs::rename(a, b);": "rename",
            "fs::copy(a, b);": "copy",
            "fs::remove_dir_all(a);": "remove_dir_all",
            "fs::create_dir_all(a);": "create_dir_all",
            "fs::hard_link(a, b);": "hard_link",
            "fs::set_permissions(a, b);": "set_permissions",
            "std::os::unix::fs::chown(a, b, c);": "chown",
            "lchown(a, b, c);": "lchown",
            "symlink(a, b);": "symlink",
            "File::create(a);": "File::create",
            "DirBuilder::new().mode(0o700).create(a);": "DirBuilder",
            "File::options().read(true).append(true).open(a);": "OpenOptions",
            "OpenOptions::new()\n    .write(true)\n    .custom_flags(b)\n    .open(a);": "OpenOptions",
            "private::create_new(a);": "private::create_new",
            "Part::create(a, b);": "Part",
            "mkdirat(CWD, a, b);": "mkdirat",
            "lsetxattr(a, b, c, d);": "lsetxattr",
        }
        for text, call in rejected.items():
            found = self.found({"crates/backup/src/x.rs": f"fn f() {{\n    {text}\n}}\n"})
            self.assertEqual(len(found), 1, text)
            self.assertTrue(found[0].startswith(f"crates/backup/src/x.rs:2: {call} by path"), found)

    def test_calls_by_descriptor_tests_comments_and_other_crates_are_allowed(self):
        allowed = [
            "fchown(&file, b, c)?; file.set_permissions(mode)?; dir.hard_link(a, &to, b)?;",
            "fn symlink(a: &Path) {}",
            "OpenOptions::new().read(true).open(a)?;",
            "mkdirat(&dir, a, b)?;",
            "meta.is_symlink();",
            "// fs::write(a, b)\n\"fs::write(a, b)\";",
            "f();\n#[cfg(test)]\nmod tests {\n    fs::write(a, b);\n}\n",
        ]
        for text in allowed:
            self.assertEqual(self.found({"crates/apply/src/x.rs": text}), [], text)
        for path in ["crates/apply/src/x/tests.rs", "crates/apply/tests/x.rs", "crates/replay/src/x.rs", "crates/apply/src/test_users.rs"]:
            self.assertEqual(self.found({path: "fs::write(a, b);"}), [], path)

    def test_an_entry_allows_the_calls_of_a_file(self):
        files = {"crates/backup/src/x.rs": "fs::rename(a, b);\nFile::create(a);\n"}
        entry = "# root's own\ncrates/backup/src/x.rs rename, File::create: the state directory is root's own\n"
        self.assertEqual(self.found(files, entry), [])
        self.assertEqual(len(self.found(files, "crates/backup/src/x.rs rename: the state directory\n")), 1)

    def test_an_entry_that_allows_nothing_is_found(self):
        found = self.found({"crates/backup/src/x.rs": "fs::rename(a, b);\n"}, "\ncrates/backup/src/x.rs rename, copy: why\n")
        self.assertEqual(found, ["scripts/lint/by-path.txt:2: crates/backup/src/x.rs has no copy by path"])
        self.assertIn("not an entry", self.found({}, "crates/backup/src/x.rs rename\n")[0])


if __name__ == "__main__":
    unittest.main()
