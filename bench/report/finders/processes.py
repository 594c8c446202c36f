"""A command with all that it starts, and an end to both."""

import os
import signal
import subprocess

from ..rounds import TooSlow


def finish(command, patience, **options):
    """(exit code, stdout, stderr). Raises TooSlow, and then nothing of it runs any more."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # In a session of its own, so that it can be ended together with its children.
    with subprocess.Popen(command, **quiet, start_new_session=True, **options) as process:
        try:
            stdout, stderr = process.communicate(timeout=patience)
        except BaseException as problem:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise TooSlow from None
            raise
    return process.returncode, stdout, stderr
