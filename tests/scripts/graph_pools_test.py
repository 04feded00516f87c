"""Memory of CUDA graphs' private pools in the arms around PyTorch: graph_pools.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "arms"))
import graph_pools  # noqa: E402


def segment(total_size, allocated_size, **pool):
    return {"total_size": total_size, "allocated_size": allocated_size} | pool


class GraphPools(unittest.TestCase):
    def test_what_no_tensor_of_a_private_pool_accounts_for_is_hidden(self):
        segments = [segment(100, 30, segment_pool_id=(0, 0)), segment(50, 50),
                    segment(64, 16, segment_pool_id=(0, 3)), segment(8, 8, segment_pool_id=[7, 0])]
        self.assertEqual(graph_pools.hidden_bytes(segments), 48)

    def test_without_graphs_nothing_is_hidden(self):
        self.assertEqual(graph_pools.hidden_bytes([segment(100, 0, segment_pool_id=(0, 0))]), 0)


if __name__ == "__main__":
    unittest.main()
