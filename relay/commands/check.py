"""`relay check`: what prevents a first start. Every finding names its remedy.

It checks the configuration, this machine, the account's grants, and the source's settings. It changes nothing. Of the
source's binlog it reads only the head of the oldest file.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from relay.commands import admin_client
from relay.commands.checks import grants, host, source
from relay.commands.checks.finding import Finding, Level
from relay.config.tree import Config


def run(config: Config, only_source: bool = False) -> Iterator[Finding]:
    """Run all checks, or those of the source, and yield one finding after the other."""
    running = None if only_source else admin_client.running_pid(config)
    if not only_source:
        yield from host.surroundings(config, running)
        if config.lake.path:
            yield host.lake(config.lake.path)
    for name in config.server.ip_addr:
        yield from source.check(config, name, running)
    if config.lake.path:
        yield grants.reading(config)


def report(config: Config, only_source: bool = False) -> str:
    """Run the checks, print each finding as it is found, and return why the relay cannot work; empty if it can."""
    failures = 0
    for finding in run(config, only_source):
        click.echo(finding)
        failures += finding.level is Level.FAIL
    findings = "1 finding prevents" if failures == 1 else f"{failures} findings prevent"
    return f"{findings} the relay from working" if failures else ""
