"""The source's password may come from a command: what it may do, what goes wrong, and what is left of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from relay.config.load import load
from relay.config.values import Command
from relay.errors import ErrorCode, RelayError
from relay.source import passwords
from relay.source.failures import SourceLost
from relay.source.login import idle
from tests.support.waiting import until


def run(*words: str, **values: str) -> bytes:
    return passwords.current(Command(words), values, idle)


def shell(script: str) -> bytes:
    return run("sh", "-c", script)


def failure(*words: str) -> SourceLost:
    with pytest.raises(SourceLost) as lost:
        run(*words)
    assert lost.value.code is ErrorCode.PASSWORD_COMMAND
    return lost.value


def test_the_first_line_that_a_command_prints_is_the_password() -> None:
    assert shell("printf 'a b\\377'") == b"a b\xff"
    assert shell("printf ' a \\r\\nsecond line\\n'; echo warning >&2") == b" a "
    assert len(shell("head -c 60000 /dev/zero | tr '\\0' x")) == 60_000, "tokens are long"


def test_a_command_is_run_without_a_shell_for_the_host_that_is_connected_to() -> None:
    assert (
        run("echo", "$HOME;", "{host}:{port}", "{login}", "{x}", host="db", port="1", login="l") == b"$HOME; db:1 l {x}"
    )


def test_a_command_gets_the_environment_without_the_secrets_of_the_relay_and_no_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RELAY_SERVER_AUTHSECRET", "a-secret")
    monkeypatch.setenv("AWS_REGION", "here")
    assert shell("cat; env | sed -n 's/^RELAY_.*/a secret/p;s/^AWS_REGION=//p'") == b"here"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("false",), "PasswordCommand false exited with status 1"),
        (("sh", "-c", "echo a-token; echo x >&2; echo no login >&2; exit 255"), "exited with status 255: no login"),
        (("sh", "-c", "kill -9 $$"), "was ended by signal 9"),
        (("true",), "PasswordCommand true printed no password"),
        (("sh", "-c", "echo; echo second"), "printed no password"),
        (("yes",), "printed more than 65536 bytes"),
        (("/nowhere/tool", "x"), "PasswordCommand /nowhere/tool cannot be started: No such file or directory"),
        (("/", "x"), "cannot be started: Permission denied"),
    ],
)  # fmt: skip
def test_a_command_that_fails_says_how_and_shows_nothing_of_its_output(words: tuple[str, ...], what: str) -> None:
    lost = failure(*words)
    assert what in str(lost) and "a-token" not in str(lost)
    error = lost.failure("tail")
    assert error.exit_code == 4 and f"within {passwords.TIMEOUT:.0f} s" in error.hint


def test_a_command_that_does_not_end_is_killed_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passwords, "TIMEOUT", 0.3)
    started = tmp_path / "started"
    script = f"sleep 1000 & echo $$ $! > {started}; echo a-token; wait"
    assert "did not end within" in str(failure("sh", "-c", script))
    pids = [int(pid) for pid in started.read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(map(runs, pids)), what="the command goes on")


def runs(pid: int) -> bool:
    """Whether a process runs: it may be dead and not waited for."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_command_leaves_behind_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "TIMEOUT", 1e6)  # pytest's comes first
    assert shell("sleep 1000 & echo a-token") == b"a-token", "the child holds the pipe open"


def test_whoever_waits_for_a_command_is_alive_and_may_end_it(tmp_path: Path) -> None:
    beats = 0

    def alive() -> None:
        nonlocal beats
        beats += 1
        if (tmp_path / "pid").exists() and beats > 5:
            raise InterruptedError

    script = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    with pytest.raises(InterruptedError):
        passwords.current(Command((sys.executable, "-c", script)), {}, alive)
    assert not runs(int((tmp_path / "pid").read_text() or os.getpid()))


def conf(folder: Path, *lines: str) -> str:
    path = folder / "relay.conf"
    path.write_text("\n".join(["[Server]", "Login = l", "AuthSecret = s", *lines]) + "\n")
    path.chmod(0o600)
    return str(path)


def test_a_command_is_read_as_words_and_its_arguments_are_masked(tmp_path: Path) -> None:
    path = conf(
        tmp_path, "PasswordCommand = bin/token --for 'two words' a\\ b", "[MySQL]", "Login = m", "PasswordCommand=x"
    )
    config, warnings = load(path, {}, {})
    assert config.server.password == (f"{tmp_path}/bin/token", "--for", "two words", "a b")
    assert config.schema_account.password == ("x",)
    assert warnings == []
    assert "two words" not in repr(config)
    followed = load(conf(tmp_path, "PasswordCommand = token"), {}, {})[0]
    assert followed.schema_account.password == ("token",), (
        "without an account of its own, [MySQL] uses that of [Server]"
    )


def test_one_of_password_file_and_command_is_set(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x\n")
    both = ("PasswordFile = secret", "PasswordCommand = token")
    for lines in (both, both[::-1], ("Password = p", both[1])):
        with pytest.raises(RelayError, match="sets Password") as refused:
            load(conf(tmp_path, *lines), {}, {})
        assert "set one of Password, PasswordFile, PasswordCommand" in refused.value.hint
        assert refused.value.position.endswith("relay.conf:5")
    for lines in (("Password =", both[1]), (both[1], "Password =")):  # as in the sample
        assert load(conf(tmp_path, *lines), {}, {})[0].server.password == ("token",)
    overridden = load(conf(tmp_path, both[1]), {"RELAY_SERVER_PASSWORD": "p"}, {})[0]
    assert overridden.server.password == "p", "a later layer replaces the command"


def test_a_command_that_is_no_line_of_words_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RelayError, match="PasswordCommand: No closing quotation"):
        load(conf(tmp_path, "PasswordCommand = token 'x"), {}, {})


def test_a_service_user_of_the_cdc_port_has_no_password_to_log_in_with(tmp_path: Path) -> None:
    _, warnings = load(conf(tmp_path, "PasswordCommand = token", "[CDC]", "Enabled = yes"), {}, {})
    assert ["ServiceUser lets nobody log in" in warning.text for warning in warnings] == [True]
    lines = ("PasswordCommand = token", "[CDC]", "Enabled = yes", "ServiceUser = never")
    assert load(conf(tmp_path, *lines), {}, {})[1] == []
