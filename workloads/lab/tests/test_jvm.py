"""Tests the start of drivers in Java."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LAB = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(LAB))

from common import jvm  # noqa: E402


class JvmTest(unittest.TestCase):
    def test_the_command(self):
        spec = {"tools": "/tools", "scratch": "/scratch", "parameters": {"heap": "2g", "compiler": "quick"}}
        command = jvm.java("kv", "poolwright.kv.Main", ["--add-opens=x"], spec)
        self.assertEqual(command[:3], ["java", "-Xms2g", "-Xmx2g"])
        self.assertEqual(command[-3:], ["-cp", "/tools/jvm/kv/*", "poolwright.kv.Main"])
        self.assertIn("-Djava.io.tmpdir=/scratch", command)
        self.assertIn("-XX:TieredStopAtLevel=1", command)
        self.assertNotIn("-XX:TieredStopAtLevel=1", jvm.java("kv", "poolwright.kv.Main", [], {**spec, "parameters": {}}))

    def test_what_is_missing_is_said_with_what_brings_it(self):
        with tempfile.TemporaryDirectory() as tools:
            lines = list(jvm.check("kv", tools))
            self.assertIn("target/lab/jvm/kv is not built: scripts/lab/fetch.sh kv", lines)
            (Path(tools) / "jvm" / "kv").mkdir(parents=True)
            (Path(tools) / "jvm" / "kv" / "fingerprint").touch()
            self.assertFalse([line for line in jvm.check("kv", tools) if "not built" in line])
            lines = list(jvm.check("kv", tools, mounts=f"{tools}/mtab"))
            self.assertTrue([line for line in lines if f"ln -s /proc/self/mounts {tools}/mtab" in line])

    def test_the_next_program_reads_the_specification(self):
        text = json.dumps({"long": "x" * 200_000})
        program = f"import os, sys; sys.path.insert(0, {str(LAB)!r}); from common import jvm; jvm.hand_over({text!r}); os.execvp('cat', ['cat'])"
        file = tempfile.NamedTemporaryFile("w", suffix=".py")
        self.addCleanup(file.close)
        file.write(program)
        file.flush()
        done = subprocess.run([sys.executable, file.name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, text)

    def test_nonsense_on_stdin(self):
        done = subprocess.run([LAB / "orientdb", "run"], input="{}", capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("docs/lab.md", done.stderr)
        self.assertEqual(subprocess.run([LAB / "orientdb"], capture_output=True, env=os.environ).returncode, 1)


if __name__ == "__main__":
    unittest.main()
