"""What is settled before JAX starts its devices."""

import os
import subprocess
import sys

import pytest

from mxjax._xla import devices as _devices


def _asked(code, folder, arguments):
    here = {name: value for name, value in os.environ.items() if name not in ("JAX_PLATFORMS", "TPU_LIBRARY_PATH")}
    here["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), here.get("PYTHONPATH")]))
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=200,
                          env=here)


@pytest.mark.skipif(_devices.may_have_tpu(), reason="this host may have a TPU")
def test_the_tpus_compiler_stays_out_of_processes_that_compute(tmp_path):
    (tmp_path / "libtpu.py").write_text("def get_library_path():\n    return '/nowhere/libtpu.so'\n")
    code = """
import sys
import mxjax as mx
from mxjax._xla import devices as _devices
if sys.argv[1:] == ["perhaps"]:
    _devices.may_have_tpu = lambda: True
print(mx.nd.ones(3).sum().asscalar(), mx.context.num_tpus())
import jax
try:
    jax.devices("tpu")
except RuntimeError as error:
    print("no TPU; libtpu is only used to compile" in str(error), "libtpu.so" in str(error))
"""
    for arguments, told in ([], "True False"), (["perhaps"], "False True"):
        done = _asked(code, tmp_path, arguments)
        assert done.stdout.split("\n")[:2] == ["3.0 0", told], done.stderr[-2000:]


@pytest.mark.parametrize("vendor, device, there", [("0x1ae0", "0x0062", True), ("0x1ae0", "0x0042", False),
                                                   ("0x10de", "0x2330", False)])
def test_a_tpu_is_seen_on_the_bus(tmp_path, monkeypatch, vendor, device, there):
    place = tmp_path / "0000:00:05.0"
    place.mkdir()
    (place / "vendor").write_text(vendor + "\n")
    (place / "device").write_text(device + "\n")
    monkeypatch.setattr(_devices, "_PCI", str(tmp_path))
    monkeypatch.setattr(_devices, "_NAMES", ())
    monkeypatch.delenv("JAX_FORCE_TPU_INIT", raising=False)
    assert _devices.may_have_tpu() is there
    monkeypatch.setattr(_devices, "_PCI", str(tmp_path / "nothing"))
    assert not _devices.may_have_tpu()


@pytest.mark.skipif(_devices.may_have_tpu(), reason="this host may have a TPU")
def test_where_no_device_starts_the_error_says_what_to_do(tmp_path):
    code = """
import os
os.environ["JAX_FORCE_TPU_INIT"] = "1"
import mxjax as mx
for _ in range(2):
    try:
        print(mx.nd.ones(3).asnumpy())
    except mx.MXNetError as error:
        print("JAX_PLATFORMS=cpu" in str(error))
"""
    assert _asked(code, tmp_path, []).stdout.split() == ["True", "True"]
