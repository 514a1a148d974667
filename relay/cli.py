"""The `relay` command: runs a verb and turns every failure into one line on standard error and an exit code.

The exit codes are those of docs/exit-codes.md.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback

import click

from relay.errors import ErrorCode, ExitCode, RelayError


def main() -> None:
    """Run the command line; ends the process with an exit code of the table."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; errors are told on standard error."""
    try:
        # Imported here, so that a native core that is missing is an error like any other.
        from relay.verbs import cli

        # Without standalone mode click returns what `context.exit` was given, and raises instead of printing.
        return int(cli.main(arguments, prog_name="relay", standalone_mode=False) or 0)
    except RelayError as error:
        return _tell(error)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return ExitCode.USAGE
    except click.ClickException as error:
        return _tell(RelayError(ErrorCode.USAGE, "usage", error.format_message()))
    except (KeyboardInterrupt, click.Abort):
        return 128 + signal.SIGINT
    except ImportError as error:
        return _tell(RelayError(ErrorCode.ENVIRONMENT, "load", error))
    except OSError as error:
        return _tell(RelayError(ErrorCode.ENVIRONMENT, "run", error, hint="check that the path is there and permitted"))
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _tell(_defect(error))


def _defect(error: Exception) -> RelayError:
    place = traceback.extract_tb(error.__traceback__)[-1]
    hint = "a defect: please report it with what `python -X dev -m relay ...` prints"
    position = f"{os.path.basename(place.filename)}:{place.lineno}"
    return RelayError(ErrorCode.UNEXPECTED, type(error).__name__, error, position=position, hint=hint)


def _tell(error: RelayError) -> int:
    click.echo(error.line(), err=True)
    return error.exit_code
