"""8-bit integers: conversion, and layers on them."""

from . import conversion, layers
