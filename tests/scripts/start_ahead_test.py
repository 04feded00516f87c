"""A Python arm that was started before its block: block_protocol.wait_for_block."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ARMS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"
PROGRAM = """
import block_protocol
block_protocol.LOADED_AHEAD += ["wave", "a_package_that_nobody_has"]
block = block_protocol.read_block_config()
import sys
print(block["arm"], "wave" in sys.modules)
"""


class StartAhead(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.loaded_file = self.folder / "loaded"

    def start(self):
        environment = os.environ | {"PYTHONPATH": str(ARMS),
                                    "STEPLENS_START_AHEAD": str(self.loaded_file)}
        environment.pop("STEPLENS_BLOCK_CONFIG", None)
        process = subprocess.Popen([sys.executable, "-B", "-c", PROGRAM], env=environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        while not self.loaded_file.exists() and process.poll() is None:
            time.sleep(0.01)
        return process

    def test_says_that_it_has_loaded_and_reads_its_config_then(self):
        process = self.start()
        self.assertIsNone(process.poll())  # It waits, and has no config yet.
        path = self.folder / "a config.json"
        path.write_text(json.dumps({"schema_version": 1, "arm": "mine"}), encoding="utf-8")
        output, error = process.communicate(f"{path}\n")
        self.assertEqual((output, error, process.returncode), ("mine True\n", "", 0))

    def test_ends_when_nobody_wants_it(self):
        output, error = self.start().communicate("")
        self.assertEqual((output, error), ("", ""))


if __name__ == "__main__":
    unittest.main()
