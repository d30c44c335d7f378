"""The machines that Ray's launcher starts by ``ray/aws.yaml``, in front of a simulated AWS (moto)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.deploy.files import DEPLOY
from tests.deploy.test_ray_clusters import prepare, read

pytestmark = pytest.mark.proof

OPEN_TO_ALL = "0.0.0.0/0"
PLACEHOLDERS = ("ami-00000000000000000", "sg-00000000000000000")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the EC2 of an account that has what the file's manual asks for, and nothing else."""
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray writes a key for SSH there.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        iam = boto3.client("iam")
        for name in ("icr-head", "icr-worker"):
            iam.create_instance_profile(InstanceProfileName=name)
        yield boto3.resource("ec2", region_name=read(DEPLOY / "ray" / "aws.yaml")["provider"]["region"])


def filled_in(ec2: Any) -> dict[str, Any]:
    """Return the file with the group that its manual makes, and an image of the account's region, where it says so."""
    [vpc] = list(ec2.vpcs.all())
    group = ec2.create_security_group(GroupName="icr-ray", Description="Ray cluster", VpcId=vpc.id)
    group.authorize_ingress(SourceSecurityGroupName="icr-ray")
    group.authorize_ingress(IpProtocol="tcp", FromPort=22, ToPort=22, CidrIp="203.0.113.0/24")
    image = next(iter(ec2.images.filter(Owners=["amazon"]))).id
    config = read(DEPLOY / "ray" / "aws.yaml")
    for kind in config["available_node_types"].values():
        own = kind["node_config"]
        assert (own["ImageId"], *own["SecurityGroupIds"]) == PLACEHOLDERS
        own.update(ImageId=image, SecurityGroupIds=[group.id])
    return prepare(config)


def test_the_launcher_starts_the_machines_of_the_file_and_opens_nothing(account: Any) -> None:
    from ray.autoscaler._private.aws.config import bootstrap_aws
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
    from ray.autoscaler.tags import TAG_RAY_CLUSTER_NAME, TAG_RAY_NODE_KIND, TAG_RAY_USER_NODE_TYPE

    config = filled_in(account)
    groups = {group.id for group in account.security_groups.all()}
    boot = bootstrap_aws(config)
    assert {group.id for group in account.security_groups.all()} == groups, "Ray made a group of its own"
    ours = {tuple(kind["node_config"]["SecurityGroupIds"]) for kind in boot["available_node_types"].values()}
    assert len(ours) == 1
    [[group]] = ours
    ranges = [each["CidrIp"] for rule in account.SecurityGroup(group).ip_permissions for each in rule["IpRanges"]]
    assert ranges == ["203.0.113.0/24"] and OPEN_TO_ALL not in ranges
    provider = AWSNodeProvider(boot["provider"], boot["cluster_name"])
    for name, kind in boot["available_node_types"].items():
        of = {TAG_RAY_NODE_KIND: "head" if name == "head" else "worker", TAG_RAY_USER_NODE_TYPE: name}
        provider.create_node(kind["node_config"], of, 1)
    running = provider.non_terminated_nodes({})
    assert len(running) == 2
    for identity in running:
        check(account.Instance(identity), TAG_RAY_USER_NODE_TYPE)
        assert provider.node_tags(identity)[TAG_RAY_CLUSTER_NAME] == "icr"
    provider.terminate_nodes(running)
    assert provider.non_terminated_nodes({}) == []


def check(machine: Any, kind_tag: str) -> None:
    kind = {tag["Key"]: tag["Value"] for tag in machine.tags}[kind_tag]
    expected = {"head": ("m6i.xlarge", "icr-head", None), "gpu": ("g6.2xlarge", "icr-worker", "spot")}[kind]
    profile = machine.iam_instance_profile["Arn"].rpartition("/")[2]
    assert (machine.instance_type, profile, machine.instance_lifecycle) == expected
    [volume] = list(machine.volumes.all())
    assert (volume.size, volume.volume_type, volume.encrypted) == (100, "gp3", True)
    assert [group["GroupName"] for group in machine.security_groups] == ["icr-ray"]
