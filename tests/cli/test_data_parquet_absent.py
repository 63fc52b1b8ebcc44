#!/usr/bin/env python3
"""Where the module for Parquet is missing, or is not one, Parquet is refused in words that say how it is got."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import command

command.need_command()


class Absent(unittest.TestCase):
    def test_refusal(self):
        with command.folder() as folder:
            root = pathlib.Path(folder)
            table = root / "table.parquet"
            table.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
            (root / "odd.so").write_bytes(b"no library")
            for module in ("missing.so", "odd.so"):
                env = {"ULLAGE_PARQUET_MODULE": str(root / module), "XDG_CACHE_HOME": folder}
                for scheme in ("parquet", "csv"):
                    result = command.run("data", "bench", f"{scheme}:{table}", "--epochs", 1, env=env)
                    self.assertEqual(result.code, 1, result.stderr)
                    self.assertIn("Parquet is not read here", result.stderr)
                    self.assertIn(module, result.stderr)
                    self.assertIn("pyarrow", result.stderr)

    def test_plain_name(self):
        with command.folder() as folder:
            table = pathlib.Path(folder) / "table.parquet"
            table.write_bytes(b"PAR1")
            result = command.run("data", "bench", table, "--epochs", 1)
            self.assertEqual(result.code, 2, result.stderr)
            self.assertIn(f"--data parquet:{table}", result.stderr)


if __name__ == "__main__":
    unittest.main()
