"""A job of two processes that together read everything once."""

import json
from pathlib import Path

import numpy as np
import pytest
from launching import launch

import mxjax as mx


@pytest.mark.slow
def test_together_they_read_everything_once(tmp_path):
    pytest.importorskip("cv2")
    with mx.recordio.MXRecordIO(tmp_path / "a.rec", "w") as writer:
        for i in range(11):
            image = np.random.RandomState(i).randint(0, 256, (8 + i, 8, 3)).astype(np.uint8)
            writer.write(mx.recordio.pack_img((0, float(i), i, 0), image, 1, ".png"))
    code, output = launch("-n", 2, Path(__file__).with_name("two_processes.py"), tmp_path / "a.rec", tmp_path / "out",
                          MXJAX_JOIN_XLA="0")
    assert code == 0, output
    told = [json.loads((tmp_path / f"out.{rank}").read_text()) for rank in range(2)]
    assert [one["size"] for one in told] == [2, 2]
    for epoch in range(2):
        assert sorted(sum((one["epochs"][epoch] for one in told), [])) == list(range(23))
    assert told[0]["epochs"][0] != told[0]["epochs"][1]
    assert sorted(told[0]["records"] + told[1]["records"]) == list(range(11)) and all(one["records"] for one in told)
