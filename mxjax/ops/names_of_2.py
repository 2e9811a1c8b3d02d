"""Names that MXNet 2 has for operators in graphs, beside those of 1.9.1."""

from __future__ import annotations

from .registry import alias

__all__ = ["READ", "WRITTEN", "WRITTEN_PARAMETERS"]

_RENAMED = """all amax amin any atleast_1d atleast_2d atleast_3d copy cumsum diag diagflat diagonal dot max min moveaxis
prod repeat roll squeeze sum trace transpose""".split()
# by an operator's name here, that under which MXNet 2 reads it from files
WRITTEN = {**{f"_np_{name}": f"_npi_{name}" for name in _RENAMED},
           "_contrib_DeformableConvolution": "_npx_deformable_convolution",
           "_contrib_ModulatedDeformableConvolution": "_npx_modulated_deformable_convolution"}
WRITTEN["_npi_concatenate"] = "Concat"
WRITTEN["_sample_multinomial"] = "_sample_categorical"
# by a name in files of MXNet 2, the operator here, where 1.9.1 calls another one so
READ = {"_sample_multinomial": "_npx__random_multinomial", "sample_multinomial": "_npx__random_multinomial"}
# by an operator's name here: parameters that have another name there
WRITTEN_PARAMETERS = {"_npi_concatenate": {"axis": "dim"}}

for _name in _RENAMED:
    alias(f"_np_{_name}", f"_npi_{_name}")
for _name in ("all_finite", "multi_all_finite", "amp_cast", "amp_multicast", "unravel_index"):
    alias(_name, f"_npi_{_name}")
alias("gather_nd", "_npi_advanced_indexing_multiple")
alias("digamma", "_sparse_digamma")
