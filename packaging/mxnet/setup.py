"""Adds `_mxnet_finder.pth` to the top of the wheel, which no setting of setuptools does."""

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithFinder(build_py):
    """Copies the modules, and the file by which every process loads the finder at its start."""

    def run(self):
        super().run()
        self.copy_file("_mxnet_finder.pth", self.build_lib)


setup(cmdclass={"build_py": BuildWithFinder})
