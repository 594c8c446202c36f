"""Go's pools, where a Go compiler is at hand. References: no Rust program would use them."""

import os
import shutil
import subprocess
from pathlib import Path

GO_WORKLOADS = {"W1-2w1p", "W1-2w4p", "W1-8w1p", "W2"}
# Debian's packages of Go libraries are found here, without a network.
DEBIAN_GOPATH = "/usr/share/gocode"
_SOURCES = {"go_channel": "channel_pool.go", "go_errgroup": "errgroup.go"}


def build(sources, target):
    """({contender: binary}, one line for each that is left out)"""
    if shutil.which("go") is None:
        return {}, ["go_channel, go_errgroup left out: no go on the path (Debian: golang)"]
    programs, left_out = {}, []
    target.mkdir(parents=True, exist_ok=True)
    for contender, source in _SOURCES.items():
        binary = Path(target) / contender
        environment = os.environ | {"GO111MODULE": "off", "GOPATH": DEBIAN_GOPATH, "CGO_ENABLED": "0"}
        command = ["go", "build", "-o", str(binary), "workload.go", source]
        built = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True)
        if built.returncode == 0:
            programs[contender] = binary
        else:
            reason = next(iter(built.stderr.strip().splitlines()[::-1]), "go build failed")
            left_out.append(f"{contender} left out: {reason.strip()}")
    return programs, left_out
