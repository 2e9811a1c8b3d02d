"""`mx.contrib.amp`: automatic mixed precision, for training (`init`) and for trained models (`convert_model`, ...)."""

from . import amp, lists, loss_scaler
from .amp import *
