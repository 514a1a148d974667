"""The `relay` command line: runs a command, and turns every failure into one line on standard error and an exit code.

docs/exit-codes.md lists the exit codes.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback

import click

from relay.base.errors import ErrorCode, ExitCode, RelayError
from relay.config.source_url import is_source_url, without_password


def main() -> None:
    """Run the command line and end the process with its exit code."""
    if any(map(is_source_url, sys.argv)):
        from relay.runtime import command_line  # few commands need ctypes

        command_line.rewrite(without_password)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code. Errors go to standard error."""
    try:
        # Imported here, so that a missing native module is an error like any other.
        from relay.commands.app import cli

        # Outside standalone mode, click returns the argument of `context.exit`, and raises instead of printing.
        return int(cli.main(arguments, prog_name="relay", standalone_mode=False) or 0)
    except RelayError as error:
        return _report(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.USAGE
    except click.ClickException as error:
        return _report(RelayError(ErrorCode.USAGE, "usage", error.format_message()))
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except ImportError as error:
        return _report(RelayError(ErrorCode.ENVIRONMENT, "load", error))
    except OSError as error:
        hint = "check that the path exists and is accessible" if error.filename else ""
        return _report(RelayError(ErrorCode.ENVIRONMENT, "run", error, hint=hint))
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _report(_defect(error))


def _defect(error: Exception) -> RelayError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    hint = "this is a defect: please report it with the output of `python -X dev -m relay ...`"
    position = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return RelayError(ErrorCode.UNEXPECTED, type(error).__name__, error, position=position, hint=hint)


def _report(error: RelayError) -> int:
    click.echo(error.line(), err=True)
    return error.exit_code
