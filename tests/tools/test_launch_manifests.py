"""`examples/cluster/`: manifests have the fields of their kinds and agree with themselves; scripts can be read."""

import argparse
import copy
import shlex
import subprocess
from pathlib import Path

import pytest

from mxjax.tools import launch

yaml = pytest.importorskip("yaml")

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"
JOBSETS = ["jobset-cpu.yaml", "jobset-gpu.yaml", "jobset-tpu.yaml"]


def _documents(name):
    return list(yaml.safe_load_all((CLUSTER / name).read_text()))


def _check(document):
    """Kubernetes' own schema, in which unknown fields are mistakes."""
    pytest.importorskip("kubernetes_validate").validate(document, "1.31", strict=True)


def _check_jobset(document):
    """JobSet's fields as its Python types have them; what is not among these is lost on the way there and back."""
    models = pytest.importorskip("kubeflow_trainer_api.models")
    assert models.JobsetV1alpha2JobSet.from_dict(copy.deepcopy(document)).to_dict() == document


def _jobs(document):
    """The Jobs that a JobSet makes, or the Job itself."""
    if document["kind"] == "Job":
        return [document]
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": each["name"]},
             "spec": each["template"]["spec"]} for each in document["spec"]["replicatedJobs"]]


@pytest.mark.parametrize("name", JOBSETS)
def test_jobsets(name):
    (document,) = _documents(name)
    assert (document["apiVersion"], document["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    _check_jobset(document)
    wrong = copy.deepcopy(document)
    wrong["spec"]["failurePolicy"]["maxRestart"] = 5
    with pytest.raises(AssertionError):
        _check_jobset(wrong)


@pytest.mark.parametrize("name", [*JOBSETS, "job.yaml"])
def test_jobs(name):
    for document in _documents(name):
        if document["kind"] != "JobSet":
            _check(document)
        else:
            for job in _jobs(document):
                _check(job)
                job["spec"]["template"]["spec"]["containers"][0]["comand"] = ["true"]
                with pytest.raises(Exception, match="comand"):
                    _check(job)


@pytest.mark.parametrize("name", [*JOBSETS, "job.yaml"])
def test_places_agree(name):
    """Who is asked for as worker 0 is the pod of index 0, and there are as many workers as pods."""
    document = _documents(name)[-1]
    (job,) = _jobs(document)
    spec = job["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    env = {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}
    assert env["MXJAX_NUM_WORKERS"] == str(spec["completions"]) == str(spec["parallelism"])
    assert spec["completionMode"] == "Indexed" and spec["backoffLimit"] == 0 and env["MXJAX_JOIN"] == "1"
    assert env["MXJAX_CLUSTER_TOKEN"] == {"secretKeyRef": {"name": "mxjax", "key": "token"}}
    if document["kind"] == "JobSet":
        assert document["spec"]["replicatedJobs"][0]["replicas"] == 1
        assert document["spec"]["coordinator"] == {"replicatedJob": "workers", "jobIndex": 0, "podIndex": 0}
        assert env["MXJAX_COORDINATOR"] == "$(COORDINATOR):9091"
        assert list(env).index("COORDINATOR") < list(env).index("MXJAX_COORDINATOR")  # only then it is put in
        assert env["COORDINATOR"]["fieldRef"]["fieldPath"] == "metadata.annotations['jobset.sigs.k8s.io/coordinator']"
    else:
        service = _documents(name)[0]
        domain = spec["template"]["spec"]["subdomain"]
        assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == (domain, "None")
        assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": document["metadata"]["name"]}
        assert env["MXJAX_COORDINATOR"] == f"{document['metadata']['name']}-0.{domain}:9091"


def test_the_ray_job():
    """Its own fields have no schema in a package; its pods have, and its command is read by the launcher."""
    (document,) = _documents("rayjob.yaml")
    assert (document["apiVersion"], document["kind"]) == ("ray.io/v1", "RayJob")
    cluster = document["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    for part in (cluster["headGroupSpec"], group):
        _check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": part["template"]["spec"]})
    words = shlex.split(document["spec"]["entrypoint"])
    assert words[:4] == ["python", "-m", "mxjax", "launch"]
    parser = argparse.ArgumentParser()
    launch.add_arguments(parser)
    given = parser.parse_args(words[4:])
    assert (given.on, given.address, given.num_workers, given.restarts) == ("ray", "auto", group["replicas"], 5)
    assert given.command == ["train.py", "--checkpoints", "/checkpoints"]
    container = group["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"]["cpu"] == str(given.cpus)


@pytest.mark.parametrize("name, shell", [("slurm.sh", "bash"), ("mpi.sh", "sh")])
def test_scripts_can_be_read(name, shell):
    assert subprocess.run([shell, "-n", CLUSTER / name]).returncode == 0
