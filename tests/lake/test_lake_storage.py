"""The lake's requirements of its storage, on a file system and on an S3 server over a real socket."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs

from relay.errors import ErrorCode, RelayError
from relay.lake import log as lake_log
from relay.lake.log import LakeLog, verify
from relay.lake.storage import Storage, open_storage
from tests.support.lake_commits import place, sealed, version
from tests.support.lake_kill import killed
from tests.support.s3_server import Application, Environ, S3Server, error
from tests.support.waiting import patience


@pytest.fixture(scope="module")
def s3_server() -> Iterator[S3Server]:
    """A server that this process and its children find."""
    with S3Server() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }.items():
            environment.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        yield server
        s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def s3(s3_server: S3Server) -> S3Server:
    """The server with one empty bucket, `bucket`."""
    s3_server.reset()
    s3fs.S3FileSystem().call_s3("create_bucket", Bucket="bucket")
    return s3_server


@pytest.fixture(params=["folder", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return open_storage(str(tmp_path / "lake"))
    request.getfixturevalue("s3")
    return open_storage("s3://bucket/a/lake")


def test_of_creations_the_first_wins(storage: Storage) -> None:
    assert storage.create("_log/1.json", b"first")
    assert not storage.create("_log/1.json", b"second")
    assert storage.read("_log/1.json") == b"first"


def test_what_is_not_there_is_said_to_be_not_there(storage: Storage) -> None:
    for _ in range(2):  # before anything exists, and in a folder that does
        with pytest.raises(FileNotFoundError):
            storage.read("folder/no")
        with pytest.raises(FileNotFoundError):
            storage.open("folder/no").read()
        with pytest.raises(FileNotFoundError):
            storage.arrow_source("folder/no")
        assert storage.size("folder/no") is None
        assert not storage.exists("folder/no")
        storage.delete("folder/no")
        storage.replace("folder/yes", b"")
    assert storage.list("no") == []


def test_a_file_that_is_written_appears_at_the_end_of_its_block(storage: Storage) -> None:
    content: list[bytes | bytearray | memoryview] = [b"some ", memoryview(b"bytes"), bytearray(b"")]
    with storage.writer("data/file") as file:
        assert [file.write(piece) for piece in content] == [5, 5, 0]
        assert not storage.exists("data/file")
        assert storage.list("data") == []
    assert storage.read("data/file") == b"some bytes"
    assert (file.bytes, file.tell(), file.sha256) == (10, 10, sha256(b"some bytes").hexdigest())


def test_a_file_whose_block_fails_is_never_seen(storage: Storage, tmp_path: Path) -> None:
    def fail() -> None:
        with storage.writer("data/file") as file:
            file.write(b"new")
            raise ZeroDivisionError

    storage.replace("data/file", b"old")
    with pytest.raises(ZeroDivisionError):
        fail()
    assert storage.read("data/file") == b"old"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in (["file"], []), "nothing is left"


def test_folders_are_listed_and_removed_with_all_in_them(storage: Storage) -> None:
    assert storage.folders("current") == []
    for name in ("current/a/b=1/x", "current/a/b=2/.x.crc", "current/c/x", "current/x", "current-not/a/x"):
        storage.replace(name, b"x")
    assert storage.folders("current") == ["current/a", "current/c"]
    assert storage.folders("current/a") == ["current/a/b=1", "current/a/b=2"]
    storage.sync(["current/a/b=1/x", "current/c/x"])
    for _ in range(2):
        storage.delete_folder("current/a")
        assert storage.folders("current") == ["current/c"]
        assert sorted(storage.walk("current")) == ["current/c/x", "current/x"]


def test_who_looks_for_leftovers_sees_all_files_and_when_they_were_written(storage: Storage) -> None:
    assert list(storage.walk("changes")) == [] and storage.modified("changes/a/x") is None
    before = time.time() - 2  # stores give whole seconds
    for name in ("changes/a/x", "changes/a/.x.tmp", "other/x"):
        storage.replace(name, b"x")
    assert sorted(storage.walk("changes")) == ["changes/a/.x.tmp", "changes/a/x"]
    for name in storage.walk("changes"):
        written = storage.modified(name)
        assert written is not None and before < written < time.time() + 2


def test_a_file_is_replaced(storage: Storage) -> None:
    for content in (b"one", b"two"):
        with storage.writer("data/file") as file:
            file.write(content)
        assert storage.read("data/file") == content
        storage.replace("data/other", content)
        assert storage.read("data/other") == content


def test_a_listing_shows_the_files_of_a_folder_and_no_others(storage: Storage) -> None:
    for name in ("f/b", "f/a=%2F", "f/.hidden", "f/under/c", "fg/d"):
        storage.replace(name, b"x")
    assert storage.list("f") == ["f/a=%2F", "f/b"]
    assert sorted(storage.walk("f")) == ["f/.hidden", "f/a=%2F", "f/b", "f/under/c"]
    storage.delete("f/b")
    assert storage.list("f") == ["f/a=%2F"]
    assert storage.size("f/a=%2F") == 1


def test_parquet_is_written_and_read_through_it(storage: Storage) -> None:
    table = pa.table({"id": range(1000), "text": ["é" * 50] * 1000})
    name = "changes/cdc_schema=shop/cdc_table=100%25/cdc_date=2026-11-20/part-1.parquet"
    with storage.writer(name) as file:
        pq.write_table(table, file, compression="zstd")
    assert storage.size(name) == file.bytes
    with storage.open(name) as stream:
        assert sha256(stream.read()).hexdigest() == file.sha256
    with storage.arrow_source(name) as source:
        assert pq.ParquetFile(source).read() == table


def test_a_whole_log_stands_on_it(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_log, "CHECKPOINT_COMMITS", 5)
    log = LakeLog(storage)
    log.commit("export", place=place(0), versions=[version()])
    for seq in range(1, 12):
        log.commit("export", place=place(seq), add=[sealed(storage, seq, seq)])
    later = LakeLog(storage)
    assert later.state() == log.state()
    assert (later.state().number, later.state().checkpoint, later.state().files) == (12, 10, 11)
    assert verify(storage, later.state()) == []


# The two kinds


def test_urls_are_those_that_spark_reads(tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_storage("lake").url("a/b=%2F") == f"file://{tmp_path}/lake/a/b=%2F"
    assert open_storage(f"file://{tmp_path}/lake").url() == f"file://{tmp_path}/lake"
    assert open_storage("s3://bucket/lake/").url("a/b") == "s3a://bucket/lake/a/b"
    assert open_storage("s3a://bucket/lake").url() == "s3a://bucket/lake"


@pytest.mark.parametrize("url", ["http://host/lake", "ftp://host/lake", "hdfs://host/lake", "nonsense://lake"])
def test_storage_without_exclusive_creation_is_refused(url: str) -> None:
    with pytest.raises(RelayError, match="no exclusive creation") as raised:
        open_storage(url)
    assert raised.value.code == ErrorCode.LAKE_STORAGE
    assert "s3://" in raised.value.hint


def test_a_package_that_is_missing_is_named() -> None:
    program = """if True:
        import sys
        sys.modules["s3fs"] = None
        from relay.errors import RelayError
        from relay.lake.storage import open_storage
        try:
            open_storage("s3://bucket/lake")
        except RelayError as error:
            print(error.code, error.line())
    """
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("environment relay: open the lake: s3://bucket/lake: the package s3fs is not installed")
    assert "pip install 'binlog-relay[s3]'" in printed


def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    storage = open_storage(str(tmp_path / "file"))
    with pytest.raises(RelayError) as raised:
        storage.create("_log/1.json", b"")
    assert raised.value.code == ErrorCode.LAKE_STORAGE
    assert "/file" in str(raised.value)


def test_a_link_whose_answer_was_lost_is_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(str(tmp_path / "lake"))
    link = os.link

    def repeated(source: str, target: str) -> None:
        with suppress(FileExistsError):
            link(source, target)
        raise FileExistsError

    monkeypatch.setattr(os, "link", repeated)
    assert storage.create("_log/1.json", b"mine")
    assert not storage.create("_log/1.json", b"another's")
    assert storage.read("_log/1.json") == b"mine"


def test_a_full_disk_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    def write(storage: Storage) -> None:
        with storage.writer("data/file") as file:
            file.write(b"x" * 10_000)

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))  # to whoever writes, a disk with room for so much
        storage = open_storage(str(tmp_path / "lake"))
        for filling in (lambda: write(storage), lambda: storage.create("_log/1.json", b"x" * 10_000)):
            with pytest.raises(RelayError, match="File too large") as raised:
                filling()
            assert raised.value.code == ErrorCode.LAKE_STORAGE

    assert not killed(tmp_path / "lake", 0, fill)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    with pytest.raises(RelayError) as raised:
        open_storage("s3://other/lake").create("_log/1.json", b"")
    assert raised.value.code == ErrorCode.LAKE_STORAGE
    assert "s3://other/lake" in raised.value.position


# Object stores and networks as they are


def test_of_several_processes_exactly_one_wins_each_number(s3: S3Server) -> None:
    command = [sys.executable, "-m", "tests.support.lake_commits", "s3://bucket/lake"]
    racers = [subprocess.Popen([*command, name, "6"], env=dict(os.environ)) for name in ("a", "b")]
    assert [racer.wait(patience(60)) for racer in racers] == [0, 0]
    commits = list(LakeLog(open_storage("s3://bucket/lake")).commits())
    assert [commit.number for commit in commits] == list(range(1, 13))
    reasons = [gap.reason for commit in commits if (gap := commit.gap)]
    assert sorted(reasons) == sorted(f"{name}{at}" for name in ("a", "b") for at in range(6))


def test_a_store_that_ignores_the_condition_is_refused(s3: S3Server) -> None:
    def forgetful(environ: Environ, inner: Application) -> Application:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return inner

    s3.rules.append(forgetful)
    with pytest.raises(RelayError, match="ignores conditions on a put"):
        open_storage("s3://bucket/lake").create("_log/1.json", b"first")
    assert not open_storage("s3://bucket/lake").exists("_log/1.json")


def put_of(name: str, environ: Environ) -> bool:
    return bool(environ["REQUEST_METHOD"] == "PUT") and str(environ["PATH_INFO"]).endswith(name)


def test_who_won_without_hearing_of_it_has_won(s3: S3Server) -> None:
    storage = open_storage("s3://bucket/lake")

    def lost(environ: Environ, inner: Application) -> Application:
        if not put_of("1.json", environ):
            return inner
        s3.rules.clear()

        def answer(environ: Environ, start: object) -> list[bytes]:
            list(inner(environ, lambda *_: None))
            return list(error(503, "ServiceUnavailable")(environ, start))  # type: ignore[arg-type]

        return answer

    s3.rules.append(lost)
    assert storage.create("_log/1.json", b"mine")
    assert not s3.rules, "its answer was lost"
    assert storage.read("_log/1.json") == b"mine"
    assert not storage.create("_log/1.json", b"another's")


@pytest.mark.parametrize(("status", "code"), [(409, "ConditionalRequestConflict"), (412, "PreconditionFailed")])
@pytest.mark.parametrize("theirs", [b"theirs", None])
def test_a_put_at_the_same_time_as_anothers_asks_who_won(
    s3: S3Server, status: int, code: str, theirs: bytes | None
) -> None:
    storage = open_storage("s3://bucket/lake")
    storage.create("_log/0.json", b"")

    def busy(environ: Environ, inner: Application) -> Application:
        if not put_of("1.json", environ) or "HTTP_IF_NONE_MATCH" not in environ:
            return inner
        s3.rules.clear()
        return error(status, code)

    if theirs is not None:
        storage.replace("_log/1.json", theirs)
    s3.rules.append(busy)
    assert storage.create("_log/1.json", b"mine") == (theirs is None)
    assert storage.read("_log/1.json") == (theirs or b"mine")


def test_a_failing_store_is_named(s3: S3Server) -> None:
    storage = open_storage("s3://bucket/lake")
    storage.create("_log/0.json", b"")
    s3.rules.append(lambda environ, inner: error(403, "AccessDenied"))
    for failing in (
        lambda: storage.create("_log/1.json", b""),
        lambda: storage.read("_log/1.json"),
        lambda: storage.list("_log"),
        lambda: storage.delete("_log/1.json"),
        lambda: storage.replace("_log/1.json", b""),
    ):
        with pytest.raises(RelayError, match=r"AccessDenied|Forbidden") as raised:
            failing()
        assert raised.value.code == ErrorCode.LAKE_STORAGE
        assert raised.value.position.startswith("s3://bucket/lake/_log")


def test_a_readers_turn_is_one_request(s3: S3Server) -> None:
    log = LakeLog(open_storage("s3://bucket/lake"))
    log.commit("export", place=place(1))
    s3.requests.clear()
    log.state()
    assert s3.requests == ["GET /bucket/lake/_log/00000000000000000002.json"]


def test_a_file_is_one_upload_that_shows_nothing_before_it_is_complete(s3: S3Server) -> None:
    storage = open_storage("s3://bucket/lake")
    s3.requests.clear()
    with storage.writer("data/file") as file:
        file.write(b"x" * 1_000_000)
        assert s3.requests == []
    assert s3.requests == ["PUT /bucket/lake/data/file"]
