"""The parameters of `ImageRecordIter` and `ImageDetRecordIter`, in the vocabulary of `ops.params`.

Their meaning is documented with the iterators (`image_record.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from ..ops.params import Floats, Range, Shape

__all__ = ["DetParameters", "ImageParameters", "RecordParameters"]

_Positive = Annotated[int, Range(1)]


@dataclass(frozen=True, kw_only=True)
class RecordParameters:
    """Parameters of both iterators: which records to read, and how to normalize their images."""

    added_to_seed: ClassVar[int] = 111  # MXNet's twisters begin with the sum
    path_imgrec: str = ""
    path_imglist: str = ""
    data_shape: Shape
    preprocess_threads: _Positive = 4
    verbose: bool = True
    num_parts: int = 1
    part_index: int = 0
    shuffle_chunk_size: int = 0
    shuffle_chunk_seed: int = 0
    shuffle: bool = False
    seed: int = 0
    batch_size: int
    round_batch: bool = True
    prefetch_buffer: int = 4
    ctx: Literal["gpu", "cpu"] = "gpu"
    resize: int = -1
    inter_method: int = 1
    mean_img: str = ""
    mean_r: float = 0.0
    mean_g: float = 0.0
    mean_b: float = 0.0
    mean_a: float = 0.0
    std_r: float = 1.0
    std_g: float = 1.0
    std_b: float = 1.0
    std_a: float = 1.0
    scale: float = 1.0

    @property
    def threads(self) -> int:
        """Returns how many threads decode."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(self.preprocess_threads, processors)


@dataclass(frozen=True, kw_only=True)
class ImageParameters(RecordParameters):
    """Parameters of `ImageRecordIter`."""

    path_imgidx: str = ""
    aug_seq: str = "aug_default"
    label_width: _Positive = 1
    device_id: int = 0
    seed_aug: int | None = None
    dtype: Literal["float32", "uint8", "int8"] | None = None
    rand_crop: bool = False
    random_resized_crop: bool = False
    max_rotate_angle: int = 0
    max_aspect_ratio: float = 0.0
    min_aspect_ratio: float | None = None
    max_shear_ratio: float = 0.0
    max_crop_size: int = -1
    min_crop_size: int = -1
    max_random_scale: float = 1.0
    min_random_scale: float = 1.0
    max_random_area: float = 1.0
    min_random_area: float = 1.0
    max_img_size: float = 1e10
    min_img_size: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    pca_noise: float = 0.0
    random_h: int = 0
    random_s: int = 0
    random_l: int = 0
    rotate: int = -1
    rotate_list: str = ""
    fill_value: int = 255
    pad: int = 0
    mirror: bool = False
    rand_mirror: bool = False
    max_random_contrast: float = 0.0
    max_random_illumination: float = 0.0


@dataclass(frozen=True, kw_only=True)
class DetParameters(RecordParameters):
    """Parameters of `ImageDetRecordIter`."""

    path_imgidx: ClassVar[str] = ""  # only `ImageRecordIter` takes these two
    seed_aug: ClassVar[int | None] = None
    added_to_seed: ClassVar[int] = 233
    path_imgrec: str = "./data/imgrec.rec"
    aug_seq: str = "det_aug_default"
    label_width: int = -1
    label_pad_width: int = 0
    label_pad_value: float = -1.0
    dtype: Literal["float32"] | None = None
    rand_crop_prob: float = 0.0
    min_crop_scales: Floats = (0.0,)
    max_crop_scales: Floats = (1.0,)
    min_crop_aspect_ratios: Floats = (1.0,)
    max_crop_aspect_ratios: Floats = (1.0,)
    min_crop_overlaps: Floats = (0.0,)
    max_crop_overlaps: Floats = (1.0,)
    min_crop_sample_coverages: Floats = (0.0,)
    max_crop_sample_coverages: Floats = (1.0,)
    min_crop_object_coverages: Floats = (0.0,)
    max_crop_object_coverages: Floats = (1.0,)
    num_crop_sampler: int = 1
    crop_emit_mode: Literal["center", "overlap"] = "center"
    emit_overlap_thresh: float = 0.3
    max_crop_trials: Shape = (25,)
    rand_pad_prob: float = 0.0
    max_pad_scale: float = 1.0
    max_random_hue: int = 0
    random_hue_prob: float = 0.0
    max_random_saturation: int = 0
    random_saturation_prob: float = 0.0
    max_random_illumination: int = 0
    random_illumination_prob: float = 0.0
    max_random_contrast: float = 0.0
    random_contrast_prob: float = 0.0
    rand_mirror_prob: float = 0.0
    fill_value: int = 127
    resize_mode: Literal["force", "shrink", "fit"] = "force"
    std_r: float = 0.0
    std_g: float = 0.0
    std_b: float = 0.0
    std_a: float = 0.0
