"""Trials on Kubernetes: the official client, and an API server that speaks the wire."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.tune.executors.choose import ExecutorOptions, choose_executor
from counterpoint.tune.executors.executor import (
    Executor,
    GangEnd,
    GangEndKind,
    ProcessShape,
    TrialJob,
    TrialLimits,
    wait_for,
)
from counterpoint.tune.executors.kubernetes import KubernetesOptions
from kubernetes_cluster import KubernetesCluster, kubernetes_cluster
from tune.executors.contract import (
    Contract,
    Finished,
    FreshContract,
    wait_until,
)

# Not imported: every collection would wait half a second for it.
pytestmark = pytest.mark.skipif(
    find_spec("kubernetes") is None, reason="counterpoint[kubernetes] is not installed"
)

TEMPLATE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: mine
  annotations: {owner: me}
spec:
  replicatedJobs:
    - name: w
      template:
        spec:
          template:
            spec:
              containers:
                - name: train
                  image: registry/train:1
                  workingDir: WORKDIR
                  command: [python, train.py]
"""
QUEUE = {"kueue.x-k8s.io/queue-name": "gpus"}
CONSTRUCT = """
import os
from counterpoint.tune.executors.choose import ExecutorOptions, choose_executor
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.executors.kubernetes import KubernetesOptions
executor = choose_executor(
    "kubernetes",
    ProcessShape(nodes=2),
    ExecutorOptions(kubernetes=KubernetesOptions(os.environ["CONTRACT_TEMPLATE"])),
)
"""


def made_of(template: Path | str) -> ExecutorOptions:
    return ExecutorOptions(kubernetes=KubernetesOptions(str(template)))


@pytest.fixture(scope="class")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    home = tmp_path_factory.mktemp("cluster")
    with kubernetes_cluster(home) as made, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(home / "kubeconfig"))
        patch.setenv("CONTRACT_TEMPLATE", str(home / "jobset.yaml"))
        (home / "jobset.yaml").write_text(TEMPLATE.replace("WORKDIR", str(home)))
        yield made


@pytest.mark.system
class TestKubernetes(Contract, FreshContract):
    construct: ClassVar[str] = CONSTRUCT
    two = ProcessShape(nodes=2)
    other = (ProcessShape(nodes=2, ranks_per_node=1), 2)
    inherits = False

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def place(cls, cluster: KubernetesCluster) -> Iterator[None]:
        yield
        assert cluster.jobsets == {}
        assert cluster.running() == []

    def test_it_runs_where_the_tuner_does(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, finished: Finished, cluster: KubernetesCluster
    ) -> None:
        """On Kubernetes: where the template says, for the pods may lack the tuner's directory."""
        assert [it["cwd"] for it in finished.told] == [str(cluster.home)] * 2


@pytest.fixture
def calm(cluster: KubernetesCluster) -> Iterator[KubernetesCluster]:
    """The cluster, in order again after the test."""
    before = dict(vars(cluster))
    yield cluster
    for name in ("capacity", "admits", "quota", "has_jobsets", "forbidden", "fails_next"):
        setattr(cluster, name, before[name] if name != "forbidden" else set())
    assert cluster.jobsets == {}


@pytest.mark.system
class TestFaults:
    """What clusters do to trials, and what is said of it."""

    def chosen(
        self,
        cluster: KubernetesCluster,
        said: list[str],
        *,
        nodes: int = 1,
        labels: dict[str, str] | None = None,
        job: dict[str, object] | None = None,
        container: dict[str, object] | None = None,
    ) -> Executor:
        template = yaml.safe_load((cluster.home / "jobset.yaml").read_text())
        template["metadata"]["labels"] = labels
        spec = template["spec"]["replicatedJobs"][0]["template"]["spec"]
        spec.update(job or {})
        spec["template"]["spec"]["containers"][0].update(container or {})
        path = cluster.home / "other.yaml"
        path.write_text(yaml.safe_dump(template))
        options = made_of(path)
        return choose_executor("kubernetes", ProcessShape(nodes=nodes), options, say=said.append)

    def ended(
        self,
        executor: Executor,
        path: Path,
        program: str,
        *,
        nodes: int = 1,
        stop: Callable[[], bool] = lambda: False,
    ) -> GangEnd:
        allocation = executor.open()
        limits = TrialLimits(timeout_s=120)
        job = TrialJob(
            name="t",
            command=(sys.executable, "-c", program),
            directory=path / "run",
            shape=ProcessShape(nodes=nodes),
            limits=limits,
        )
        deadline = time.monotonic() + 300

        def stop_or_late() -> bool:
            assert time.monotonic() < deadline
            return stop()

        try:
            return wait_for(allocation.start(job), limits, stop_or_late)
        finally:
            allocation.close()

    def test_the_template_is_kept_but_for_what_a_trial_needs(
        self, calm: KubernetesCluster, tmp_path: Path
    ) -> None:
        container: dict[str, object] = {
            "resources": {"limits": {"nvidia.com/gpu": 8}},
            "env": [{"name": "NCCL_DEBUG", "value": "$(JOBSET_NAME)"}],
        }
        executor = self.chosen(calm, [], nodes=2, container=container)
        assert self.ended(executor, tmp_path, "pass", nodes=2).exit_code == 0
        made = calm.created[-1]
        assert made["metadata"]["annotations"]["owner"] == "me"
        assert made["spec"]["failurePolicy"] == {"maxRestarts": 0}
        job = made["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (2, 2, 0)
        (pod,) = job["template"]["spec"]["containers"]
        assert pod["image"] == "registry/train:1"
        told = {one["name"]: one.get("value") for one in pod["env"]}
        assert told["NCCL_DEBUG"] == "$(JOBSET_NAME)"
        assert told["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3,4,5,6,7"

    def test_a_full_cluster_is_waited_for_and_told(
        self, calm: KubernetesCluster, tmp_path: Path
    ) -> None:
        said: list[str] = []
        calm.capacity = 0
        executor = self.chosen(calm, said)
        told = self.ended(executor, tmp_path, "pass", stop=lambda: bool(said))
        assert told.kind is GangEndKind.KILLED
        assert "pending: Unschedulable: 0/4 nodes: Insufficient nvidia.com/gpu" in said[0]

    def test_kueue_admits_all_pods_at_once(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        said: list[str] = []
        calm.admits = False
        executor = self.chosen(calm, said, nodes=2, labels=QUEUE)
        assert "queue gpus" in executor.describe()

        def admit() -> bool:
            calm.admits = calm.admits or bool(said)
            return False

        assert self.ended(executor, tmp_path, "pass", nodes=2, stop=admit).exit_code == 0
        assert "waiting for quota" in said[0]

    def test_without_a_queue_it_is_said_that_pods_may_wait(self, calm: KubernetesCluster) -> None:
        said: list[str] = []
        self.chosen(calm, said, nodes=2).open()
        assert "no queue" in said[0]

    def test_kueue_takes_nodes_back(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        executor = self.chosen(calm, [], labels=QUEUE)

        def suspend() -> bool:
            if calm.running() and (tmp_path / "run" / "run.json").exists():
                calm.admits = False
                for jobset in calm.jobsets.values():
                    jobset["spec"]["suspend"] = True
            return False

        told = self.ended(executor, tmp_path, "import time; time.sleep(99)", stop=suspend)
        assert told.kind is GangEndKind.PREEMPTED
        assert "waiting for quota" in told.detail

    def test_a_quota_is_told(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        said: list[str] = []
        calm.quota = "pods is forbidden: exceeded quota: team-gpus"
        self.ended(self.chosen(calm, said), tmp_path, "pass", stop=lambda: bool(said))
        assert "FailedCreate: pods is forbidden: exceeded quota: team-gpus" in said[0]

    def test_an_image_that_is_not_there_ends_the_study(
        self, calm: KubernetesCluster, tmp_path: Path
    ) -> None:
        executor = self.chosen(calm, [], container={"image": "registry/missing:1"})
        with pytest.raises(UsageError, match="can't start: ImagePullBackOff") as refused:
            self.ended(executor, tmp_path, "pass")
        assert "registry/missing:1" in str(refused.value.why)

    @pytest.mark.parametrize(
        ("reason", "kind"),
        [
            ("DeletionByTaintManager", GangEndKind.NODE_FAULT),
            ("PreemptionByScheduler", GangEndKind.PREEMPTED),
        ],
    )
    def test_a_lost_pod_is_not_the_trial_s_fault(
        self, calm: KubernetesCluster, tmp_path: Path, reason: str, kind: GangEndKind
    ) -> None:
        lost: list[str] = []

        def lose() -> bool:
            if not lost and len(calm.running()) == 2:
                lost.append(reason)
                calm.lose(reason)
            return False

        executor = self.chosen(calm, [], nodes=2)
        told = self.ended(executor, tmp_path, "import time; time.sleep(99)", nodes=2, stop=lose)
        assert (told.kind, "node n0" in told.detail) == (kind, True)

    def test_a_deadline_of_the_template_is_not_the_trial_s_fault(
        self, calm: KubernetesCluster, tmp_path: Path
    ) -> None:
        executor = self.chosen(calm, [], job={"activeDeadlineSeconds": 2})
        told = self.ended(executor, tmp_path, "import time; time.sleep(99)")
        assert told.kind is GangEndKind.PREEMPTED
        assert "deadline" in told.detail

    def test_a_deleted_jobset_is_told(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        def delete() -> bool:
            for name in list(calm.jobsets) if calm.running() else ():
                calm.delete(name)
            return False

        told = self.ended(
            self.chosen(calm, []), tmp_path, "import time; time.sleep(99)", stop=delete
        )
        assert (told.kind, "deleted its JobSet" in told.detail) == (GangEndKind.PREEMPTED, True)

    def test_a_server_that_stumbles_is_asked_again(
        self, calm: KubernetesCluster, tmp_path: Path
    ) -> None:
        said: list[str] = []

        def stumble() -> bool:
            if calm.running() and not said:
                calm.fails_next = 1
            return False

        executor = self.chosen(calm, said)
        told = self.ended(executor, tmp_path, "import time; time.sleep(2)", stop=stumble)
        assert (told.kind, told.exit_code) == (GangEndKind.EXITED, 0)
        assert "trying again" in said[0]

    def test_a_dead_tuner_leaves_no_jobset(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        program = (
            "import sys, time\nfrom pathlib import Path\n"
            "from counterpoint.tune.executors.executor import ProcessShape, TrialJob\n"
            f"{CONSTRUCT}\n"
            "job = TrialJob(name='left', command=('sleep', '99'), "
            f"directory=Path({str(tmp_path)!r}) / 'left', shape=ProcessShape(nodes=2))\n"
            "gang = executor.open().start(job)\nprint('up', flush=True)\ntime.sleep(99)\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
        ) as tuner:
            assert tuner.stdout is not None
            assert tuner.stdout.readline() == "up\n"
            wait_until(lambda: bool(calm.running()), "no pod ever ran")
            tuner.kill()
        wait_until(lambda: not calm.jobsets, "its JobSet was never deleted")
        assert calm.running() == []

    def test_ctrl_c_leaves_no_jobset(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        def interrupt() -> bool:
            if calm.running():
                raise KeyboardInterrupt
            return False

        with pytest.raises(KeyboardInterrupt):
            self.ended(
                self.chosen(calm, []), tmp_path, "import time; time.sleep(99)", stop=interrupt
            )
        assert calm.jobsets == {}

    def test_jobsets_that_the_cluster_lacks(self, calm: KubernetesCluster) -> None:
        calm.has_jobsets = False
        with pytest.raises(CounterpointError, match="no JobSets") as refused:
            self.chosen(calm, [])
        assert refused.value.next == "kubectl get crd jobsets.jobset.x-k8s.io"

    def test_what_one_may_not_do(self, calm: KubernetesCluster) -> None:
        calm.forbidden.add("POST jobsets")
        with pytest.raises(CounterpointError, match="create a JobSet") as refused:
            self.chosen(calm, [])
        assert refused.value.next == "kubectl --namespace team auth can-i create jobsets"

    def test_pods_that_one_may_not_see(self, calm: KubernetesCluster, tmp_path: Path) -> None:
        executor = self.chosen(calm, [])
        calm.forbidden.add("GET pods")
        allocation = executor.open()
        job = TrialJob(name="t", command=("true",), directory=tmp_path / "run")
        gang = allocation.start(job)
        with pytest.raises(CounterpointError, match="list pods"):
            wait_for(gang, TrialLimits(), lambda: False)
        calm.forbidden.clear()
        allocation.close()


class TestTemplates:
    """Templates that no trial can be made from; none of these asks a cluster."""

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("kind: JobSet", "kind: Job", "has to contain one JobSet, but has Job"),
            ("v1alpha2", "v1", "apiVersion is jobset.x-k8s.io/v1"),
            ("containers:", "boxes:", "containers is missing"),
            (
                "        spec:\n          template",
                "        spec:\n          completions: 4\n          template",
                "has 4 pods, but trials take 1 node",
            ),
            ("kind: JobSet", "kind: [", "can't be read as YAML"),
            (
                "                - name: train",
                "                - {name: log, image: x}\n                - name: train",
                "has several containers: log, train",
            ),
        ],
    )
    def test_are_refused_in_words(self, tmp_path: Path, old: str, new: str, told: str) -> None:
        path = tmp_path / "jobset.yaml"
        assert old in TEMPLATE
        path.write_text(TEMPLATE.replace(old, new))
        with pytest.raises(CounterpointError, match=told):
            choose_executor(
                "kubernetes",
                ProcessShape(),
                made_of(path),
            )

    def test_the_options_have_to_fit(self) -> None:
        with pytest.raises(UsageError, match="--job-template is missing"):
            choose_executor("kubernetes", ProcessShape())
        with pytest.raises(CounterpointError, match=r"nothere\.yaml"):
            choose_executor(
                "kubernetes",
                ProcessShape(),
                made_of("nothere.yaml"),
            )
        for shape in (ProcessShape(per="gpu"), ProcessShape(ranks_per_node=8)):
            with pytest.raises(UsageError, match="per pod"):
                choose_executor("kubernetes", shape, made_of("x.yaml"))

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (None, "no cluster of Kubernetes is configured"),
            ("{}", "no cluster of Kubernetes is configured"),
            ("http://127.0.0.1:1", "at http://127.0.0.1:1 does not answer"),
        ],
    )
    def test_a_cluster_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, told: str
    ) -> None:
        config = tmp_path / "config"
        if text is not None:
            whole = {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {}}],
                "clusters": [{"name": "c", "cluster": {"server": text}}],
            }
            config.write_text(text if text == "{}" else yaml.safe_dump(whole))
        monkeypatch.setenv("KUBECONFIG", str(config))
        (tmp_path / "jobset.yaml").write_text(TEMPLATE)
        with pytest.raises(CounterpointError, match=told):
            choose_executor("kubernetes", ProcessShape(), made_of(tmp_path / "jobset.yaml"))
