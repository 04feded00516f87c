"""What a Python arm writes: block_protocol.write_record."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"))
import block_protocol  # noqa: E402


class WriteRecord(unittest.TestCase):
    def written(self, record):
        with tempfile.TemporaryDirectory() as folder:
            block_protocol.write_record({"output_folder": folder}, {"rank": 0} | record)
            return json.loads((pathlib.Path(folder) / "block.json").read_text(encoding="utf-8"))

    def test_cuts_absolute_paths_to_their_last_part(self):
        # The cases of tests/harness/machine_names_test.cpp.
        for text, expected in (
                ('File "/home/me/a/train.py", line 3', 'File "train.py", line 3'),
                ("/usr/lib/libc.so.6(abort+0x12b)", "libc.so.6(abort+0x12b)"),
                ("open(path=/data/x.bin): denied", "open(path=x.bin): denied"),
                ("in /tmp/", "in tmp"),
                ("in file `/opt/x/site-packages/torch/_compile.py` should",
                 "in file `_compile.py` should")):
            record = self.written({"reason": text, "evidence": {"a": [{"b": text}]}})
            self.assertEqual(record["reason"], expected)
            self.assertEqual(record["evidence"]["a"][0]["b"], expected)

    def test_leaves_what_is_no_absolute_path(self):
        for text in ("3 tokens/s", "a / b", "https://pytorch.org/docs", "blocks/0001/x", "",
                     "and/or", "./run.sh", "../x", "/"):
            self.assertEqual(self.written({"reason": text})["reason"], text)

    def test_text_is_that_of_the_worker(self):
        # The case of tests/harness/json_text_test.cpp.
        value = {"steps": {"loss": [1.5, None, 1e-8], "names": ["a", "b"]},
                 "arms": [{"name": "x"}, {"name": "y", "empty": []}], "nothing": {}}
        self.assertEqual(block_protocol.json_text(value), """{
 "arms": [
  {
   "name": "x"
  },
  {
   "empty": [],
   "name": "y"
  }
 ],
 "nothing": {},
 "steps": {
  "loss": [1.5, null, 1e-08],
  "names": ["a", "b"]
 }
}""")
        self.assertEqual(block_protocol.json_text([[1, 2], 3]), "[\n [1, 2],\n 3\n]")

    def test_a_number_that_is_none_is_null(self):
        record = self.written({"steps": {"loss": [1.5, float("nan"), float("inf")]}})
        self.assertEqual(record["steps"]["loss"], [1.5, None, None])


class PublishedBundles(unittest.TestCase):
    def test_name_no_folder_of_a_machine(self):
        published = pathlib.Path(__file__).resolve().parents[2] / "reports" / "published"
        paths = sorted(published.glob("*/**/block*.json"))
        self.assertTrue(paths)
        for path in paths:
            record = json.loads(path.read_text(encoding="utf-8"))
            with self.subTest(path=str(path.relative_to(published))):
                self.assertEqual(block_protocol.fit_for_bundle(record), record)


if __name__ == "__main__":
    unittest.main()
