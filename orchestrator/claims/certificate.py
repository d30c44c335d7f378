"""A certificate: the questions, the answers, and digests of all they rest on, so that nobody can move the questions."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.claims.claims import Claims
from orchestrator.claims.engine import Cells, Finding
from orchestrator.machines.environment import describe_environment

FORMAT = 1


def certificate(claims: Claims, findings: Sequence[Finding], cells: Cells, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the certificate of a page as plain values for JSON.

    Args:
        claims: The claims.
        findings: The answer to each.
        cells: The cells that were run.
        data: Dataset -> digest of its files.

    Returns:
        ``claims_digest``, the SHA-256 of the claims as they were asked, and for each claim its form, answer and tests.
    """
    asked = json.dumps(claims.model_dump(mode="json"), sort_keys=True)
    environment = describe_environment()
    return {
        "format": FORMAT,
        "claims": claims.name,
        "source": claims.source,
        "level": claims.level,
        "claims_digest": hashlib.sha256(asked.encode()).hexdigest(),
        "data": dict(data),
        "code": environment["git_revision"],
        "versions": dict(environment["versions"]),
        "findings": [_finding(one) for one in findings],
        "cells": [
            {
                "dataset": dataset,
                "model": model,
                "loss": loss,
                "seeds": max(one.seeds for one in measures.values()),
                "means": {name: one.mean for name, one in sorted(measures.items())},
                "sample_std": {name: one.sample_std for name, one in sorted(measures.items())},
            }
            for (dataset, model), losses in cells.items()
            for loss, measures in losses.items()
        ],
    }


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "id": found.claim.id,
        "statement": found.claim.statement,
        "where": found.claim.where,
        "holds_if": [part.model_dump(mode="json", exclude_defaults=True) for part in found.claim.holds_if],
        "answer": str(found.outcome),
        "p": found.p,
        "p_against": found.p_against,
        "missing": list(found.missing),
        "tests": [asdict(test) for test in found.tests],
    }
