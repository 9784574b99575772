"""Without a network: the catalogue is listed, and nobody is asked for anything."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.deploy.sources import ROOT

NO_NETWORK = """
import socket, sys

def refuse(*arguments, **_):
    sys.exit(f"network used: {arguments[:2]}")

socket.getaddrinfo = socket.create_connection = refuse
socket.socket.connect = socket.socket.connect_ex = refuse

import app
sys.exit(app.main(["variants", "--json"]))
"""


def test_the_catalogue_is_listed_without_a_network() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_NETWORK], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    listed = {entry["id"] for entry in json.loads(done.stdout)["variants"]}
    assert {"pocket-ar", "nitro-ar-gan"} <= listed
