"""8-bit integers: conversion, calibration, layers on them."""

from . import calibration, conversion, layers
