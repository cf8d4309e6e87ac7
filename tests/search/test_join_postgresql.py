"""Processes run one search together on a PostgreSQL server; make test-postgres installs it."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.search.test_join_killed import check_killed, check_stopped

pytestmark = pytest.mark.slow
# Where Debian puts what is not for users.
DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
PROGRAMS = os.pathsep.join([*map(str, DEBIAN), os.environ.get("PATH", "")])


@pytest.fixture(scope="module")
def server():
    """Yield the address of a server of our own, on loopback, in a temporary folder."""
    pytest.importorskip("psycopg", reason="needs psycopg: make test-postgres")
    programs = [shutil.which(name, path=PROGRAMS) for name in ("initdb", "pg_ctl", "createdb")]
    if not all(programs):
        pytest.skip("needs a PostgreSQL server: make test-postgres")
    # The server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else getpass.getuser()
    folder = tempfile.mkdtemp(prefix="shiftune-postgresql-")
    shutil.chown(folder, user)
    initdb, pg_ctl, createdb = map(str, programs)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command):
        done = subprocess.run(
            command, cwd=folder, user=user if os.geteuid() == 0 else None, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    data = f"{folder}/data"
    try:
        run(initdb, "-D", data, "-U", "shiftune", "--auth=trust", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder}"
        run(pg_ctl, "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:

            def new(name):
                run(createdb, "-h", "127.0.0.1", "-p", str(port), "-U", "shiftune", name)
                return f"postgresql+psycopg://shiftune@127.0.0.1:{port}/{name}"

            yield new
        finally:
            run(pg_ctl, "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_killed_at_random(tmp_path, server):
    check_killed(tmp_path, server("killed"), seed=1)


def test_a_late_result_does_not_count(tmp_path, server):
    check_stopped(tmp_path, server("stopped"))
