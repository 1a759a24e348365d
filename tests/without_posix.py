"""Imports everything and estimates, in a Python that has only what Windows has of POSIX.

What other packages load comes first: they have branches of their own for Windows.
"""

import os
import pkgutil
import signal
import sys
from importlib import import_module

import torch
from bokeh.core.serialization import Deserializer

PACKAGES = ("amci_core", "amci_explorer")
MODULES = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM", "SIG_DFL", "SIG_IGN"}
OF_SIGNAL = ("alarm", "pthread_kill", "pthread_sigmask", "setitimer", "sigwait")
OF_OS = ("chown", "fork", "geteuid", "getgid", "getloadavg", "getpgid", "getuid", "killpg")
OF_OS += ("mkfifo", "nice", "register_at_fork", "sched_getaffinity", "setsid", "sysconf", "uname")


def load() -> None:
    for package in map(import_module, PACKAGES):
        for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not each.name.endswith((".__main__", ".dashboard")):
                import_module(each.name)


state, threads = torch.random.get_rng_state(), torch.get_num_threads()
load()
# Importing leaves what belongs to others alone.
assert torch.equal(torch.random.get_rng_state(), state)
assert torch.get_num_threads() == threads
assert torch.get_default_dtype() is torch.float32
assert torch.is_grad_enabled()
for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
    del sys.modules[name]
# What the page refuses stays registered.
Deserializer.register = lambda *_: None
sys.modules.update(dict.fromkeys(MODULES))
only_posix = [name for name in dir(signal) if name.startswith("SIG") and name not in SIGNALS]
for module, names in ((signal, (*only_posix, *OF_SIGNAL)), (os, OF_OS)):
    for name in filter(vars(module).__contains__, names):
        delattr(module, name)
load()
assert import_module("amci_explorer.compute.ready").read([]) == []
import_module("amci_core.cli").main("estimate tail-1d --y 1 --theta 3".split())
