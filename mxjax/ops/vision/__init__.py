"""Operators on images, boxes and regions."""

from . import box, deformable, image, multibox, proposal, resize, roi, spatial
