"""Splitting batches, clipping, downloading."""

import hashlib
import http.server
import threading
from typing import ClassVar

import numpy as np
import pytest

import mxjax as mx
from mxjax.gluon import utils


def test_split_data():
    x = mx.nd.array(np.arange(10).reshape(5, 2))
    parts = utils.split_data(x, 3, even_split=False)
    assert [p.shape[0] for p in parts] == [2, 2, 1] and parts[2].asnumpy().tolist() == [[8, 9]]
    assert [p.shape for p in utils.split_data(x, 2, batch_axis=1)] == [(5, 1), (5, 1)]
    with pytest.raises(ValueError, match="evenly"):
        utils.split_data(x, 2)
    loaded = utils.split_and_load(np.ones((4, 1)), [mx.cpu(0), mx.cpu(1)])
    assert [p.context for p in loaded] == [mx.cpu(0), mx.cpu(1)]


def test_clip_global_norm():
    arrays = [mx.nd.ones((3,)) * 2, mx.nd.ones((2, 2), ctx=mx.cpu(1))]
    assert utils.clip_global_norm(arrays, 2.0) == pytest.approx(4.0)
    np.testing.assert_allclose(arrays[1].asnumpy(), 0.5, rtol=1e-5)
    assert utils.clip_global_norm(arrays, 5.0, check_isfinite=False).shape == (1,)
    np.testing.assert_allclose(arrays[0].asnumpy(), 1.0, rtol=1e-5)
    with pytest.warns(UserWarning, match="nan or inf"):
        utils.clip_global_norm([mx.nd.array([np.inf])], 1.0)
    rows = mx.nd.ones((4, 4)).tostype("row_sparse")
    assert utils.clip_global_norm([rows], 2.0) == pytest.approx(4.0) and rows.stype == "row_sparse"
    with pytest.raises(AssertionError, match="no arrays"):
        utils.clip_global_norm([], 1.0)
    np.testing.assert_allclose(rows.asnumpy(), 0.5, rtol=1e-5)


def test_download_checks_and_retries(tmp_path, capsys):
    source, target = tmp_path / "source.bin", tmp_path / "to" / "target.bin"
    source.write_bytes(b"content")
    good = hashlib.sha1(b"content").hexdigest()
    url = source.as_uri()
    assert utils.download(url, str(target), sha1_hash=good) == str(target) and target.read_bytes() == b"content"
    source.write_bytes(b"new")
    utils.download(url, str(target), sha1_hash=good)
    assert target.read_bytes() == b"content"
    utils.download(url, str(target), overwrite=True)
    assert target.read_bytes() == b"new" and utils.check_sha1(str(target), hashlib.sha1(b"new").hexdigest())
    with pytest.raises(OSError, match="SHA-1"):
        utils.download(url, str(target), sha1_hash=good, retries=1)
    assert "1 attempt left" in capsys.readouterr().out
    assert [f.name for f in target.parent.iterdir()] == ["target.bin"]
    with pytest.raises(ValueError, match="negative"):
        utils.download(url, str(target), retries=-1)


def test_download_from_a_server(tmp_path, capsys):
    class Answer(http.server.BaseHTTPRequestHandler):
        asked: ClassVar[list[str]] = []

        def do_GET(self):  # noqa: N802
            self.asked.append(self.path)
            self.send_response(200 if self.path == "/good.bin" and len(self.asked) > 1 else 503)
            self.end_headers()
            self.wfile.write(b"content")

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        target = mx.test_utils.download(url + "good.bin", dirname=str(tmp_path))
        assert target == str(tmp_path / "good.bin") and (tmp_path / "good.bin").read_bytes() == b"content"
        assert Answer.asked == ["/good.bin"] * 2 and "503" in capsys.readouterr().out
        with pytest.warns(UserWarning, match="Unverified HTTPS"), pytest.raises(OSError, match="503"):
            utils.download(url + "bad.bin", str(tmp_path), retries=0, verify_ssl=False)
        assert [f.name for f in tmp_path.iterdir()] == ["good.bin"]
        server.shutdown()


def test_shape_is_known():
    assert utils.shape_is_known((2, 3)) and not utils.shape_is_known((2, 0)) and not utils.shape_is_known(None)
    with mx.np_shape(True):
        assert utils.shape_is_known(()) and utils.shape_is_known((0,)) and not utils.shape_is_known((-1,))
    with pytest.raises(AssertionError, match="less than"):
        utils.shape_is_known((-1,))


@mx.util.use_np
def test_arrays_of_the_kind_in_use():
    arrays = [mx.np.full((2, 2), 3.0), mx.np.full((4,), 4.0)]
    assert utils.clip_global_norm(arrays, 5.0) == pytest.approx(10)
    np.testing.assert_allclose(arrays[1].asnumpy(), 2)
    assert type(mx.gluon.Constant("numbers", [1, 2]).value) is mx.np.ndarray
