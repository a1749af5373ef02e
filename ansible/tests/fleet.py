"""A fleet in namespaces: each router has its own network, mounts, processes and sshd, its own /run,
/etc/linerate and sysfs, a port on the controller's bridge, and a LAN port to be tuned."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

PROGRAM = os.environ.get("LINERATE_PROGRAM") or shutil.which("linerate")
# OpenWrt's server and shell.
DROPBEAR = os.environ.get("DROPBEAR") or shutil.which("dropbear", path=os.environ["PATH"] + ":/usr/sbin")
BUSYBOX = shutil.which("busybox")
SSHD = os.environ.get("SSHD") or shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
GATEWAY = "198.18.0.1"

# Started in new namespaces; $1 is the router's directory, $2 its address, the rest
# the server.
ROUTER = r"""
set -eu
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd "$1/etc-linerate" /etc/linerate
mount --bind "$1/etc-linerate" /etc/linerate
mount --bind "$1/passwd" /etc/passwd
ip link set lo up
ip link add lan0 type veth peer name lanp0
ip link set lan0 up
ip link set lanp0 up
: >"$1/up"
until ip addr add "$2/16" dev wan0 2>/dev/null; do sleep 0.05; done
ip link set wan0 up
ip route add default via 198.18.0.1
if [ -d "$1/root" ]; then
    mount --bind "$1/root" /root
    mount --bind "$1/shells" /etc/shells
fi
log=$1/sshd.log
shift 2
exec "$@" 2>>"$log"
"""


def run(*words, **more):
    """Runs a command that has to work."""
    return subprocess.run([str(word) for word in words], check=True, **more)


class Router:
    """One router."""

    def __init__(self, work, number, key, small):
        self.number, self.name = number, "r%d" % number
        self.address = "198.18.1.%d" % number
        self.dir = work / self.name
        self.dir.mkdir()
        self.key = self.dir / "host_key"
        self.small = small
        users = pathlib.Path("/etc/passwd").read_text()
        if "\nsshd:" not in users:
            users += "sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin\n"
        if small:
            self.server = self.dropbear(key)
            (self.dir / "ash").symlink_to(BUSYBOX)
            (self.dir / "shells").write_text("%s\n" % (self.dir / "ash"))
            (root, rest) = users.split("\n", 1)
            users = "%s:%s\n%s" % (root.rsplit(":", 1)[0], self.dir / "ash", rest)
        else:
            self.server = self.sshd(key)
        (self.dir / "passwd").write_text(users)
        self.program = self.dir / "linerate"
        self.program.symlink_to(PROGRAM)
        self.process = None

    def sshd(self, key):
        """OpenSSH's server."""
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        (self.dir / "authorized_keys").write_text(key)
        (self.dir / "sshd_config").write_text(
            "HostKey %s\nAuthorizedKeysFile %s\nListenAddress %s\nPidFile none\nUsePAM no\n"
            "StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\nUseDNS no\n"
            "MaxStartups 100\n" % (self.key, self.dir / "authorized_keys", self.address)
        )
        return [SSHD, "-D", "-e", "-f", self.dir / "sshd_config"]

    def dropbear(self, key):
        """OpenWrt's."""
        tool = pathlib.Path(DROPBEAR).resolve()
        made = [place / "dropbearkey" for place in (tool.parents[1] / "bin", tool.parent)]
        (tool,) = [str(place) for place in made if place.exists()][:1]
        run(tool, "-t", "ed25519", "-f", self.key, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        told = run(tool, "-y", "-f", self.key, capture_output=True, text=True).stdout
        (line,) = [line for line in told.splitlines() if line.startswith("ssh-")]
        self.key.with_suffix(".pub").write_text(line + "\n")
        home = self.dir / "root" / ".ssh"
        home.mkdir(parents=True, mode=0o700)
        (home / "authorized_keys").write_text(key)
        (home / "authorized_keys").chmod(0o600)
        return [DROPBEAR, "-F", "-E", "-s", "-r", self.key, "-p", self.address + ":22", "-P", ""]

    def public_key(self):
        """Its host key, as known_hosts has it."""
        return self.key.with_suffix(".pub").read_text()

    def start(self):
        """Begins; `wait` waits until it is there."""
        words = ["unshare", "-n", "-m", "-p", "--fork", "--kill-child", "--mount-proc", "sh", "-c", ROUTER]
        words += ["router", self.dir, self.address, *self.server]
        self.process = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE)

    def wait(self):
        """Waits for its sshd."""
        self.until(lambda: (self.dir / "up").exists())
        pair = ["type", "veth", "peer", "name", "wan0", "netns", self.init()]
        run("ip", "link", "add", self.name, *pair)
        run("ip", "link", "set", self.name, "master", "br0", "up")
        self.until(lambda: self.inside("ss", "-Hltn").stdout.strip())

    def until(self, is_so):
        """Waits until something is so, half a minute at most."""
        for _unused in range(600):
            if self.process.poll() is not None:
                raise AssertionError(self.process.stderr.read().decode())
            if is_so():
                return
            time.sleep(0.05)
        raise AssertionError("%s does not come up" % self.name)

    def init(self):
        """The process number of its first process, as seen from here."""
        children = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        return int(pathlib.Path(children).read_text().split()[0])

    def inside(self, *words, **more):
        """Runs a command in it."""
        enter = ["nsenter", "-t", self.init(), "-n", "-m", "-p"]
        return run(*enter, *words, capture_output=True, text=True, **more)

    def linerate(self, *words):
        """What its linerate says; any exit code."""
        enter = ["nsenter", "-t", str(self.init()), "-n", "-m", "-p", PROGRAM, *words]
        return subprocess.run(enter, capture_output=True, text=True, check=False)

    def status(self):
        """What its status is."""
        return json.loads(self.linerate("status", "--json").stdout)

    def mask(self):
        """RPS of its LAN port: what the plans here set."""
        text = self.inside("cat", "/sys/class/net/lan0/queues/rx-0/rps_cpus").stdout.strip()
        return int(text.replace(",", ""), 16)

    def wrap(self, script):
        """Puts a script in the place of its program; $REAL is the program."""
        self.program.unlink()
        self.program.write_text("#!/bin/sh\nREAL=%s\n%s\n" % (PROGRAM, script))
        self.program.chmod(0o755)

    def leave(self, *words):
        """Starts a command in it that goes on by itself."""
        enter = ["nsenter", "-t", str(self.init()), "-n", "-m", "-p", *words]
        return subprocess.Popen(enter, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pretend_openwrt(self):
        """Lays the files out by which linerate knows OpenWrt."""
        tree = self.dir / "openwrt"
        tree.mkdir()
        self.inside("sh", "-c", "cp -a /etc %s/etc" % tree)
        for name in ("openwrt_release", "rc.common", "config/network"):
            path = tree / "etc" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        self.inside("mount", "--bind", tree / "etc", "/etc")
        self.etc = tree / "etc" / "linerate"

    def stop(self):
        """Ends it and all of its processes."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        # Its end is there until the kernel has taken the namespace down.
        subprocess.run(["ip", "link", "del", self.name], stderr=subprocess.DEVNULL, check=False)


class Fleet:
    """The routers, and the controller's side."""

    def __init__(self, work, collections):
        self.work, self.collections = work, collections
        self.routers = []
        self.keep = contextlib.ExitStack()
        self.key = work / "id"

    def __enter__(self):
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "addr", "add", GATEWAY + "/16", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        return self

    def __exit__(self, *unused):
        for router in self.routers:
            router.stop()
        run("ip", "link", "del", "br0")
        # Masters of ssh that are still connected.
        for control in (self.work / "cp").glob("*"):
            subprocess.run(
                ["ssh", "-O", "exit", "-o", "ControlPath=%s" % control, "x"],
                stderr=subprocess.DEVNULL,
                check=False,
            )

    def make(self, count, small=False):
        """Makes that many routers; small ones are like OpenWrt's, with dropbear and busybox."""
        key = self.key.with_suffix(".pub").read_text()
        new = [Router(self.work, len(self.routers) + n + 1, key, small) for n in range(count)]
        self.routers += new
        for router in new:
            router.start()
        for router in new:
            router.wait()
        return new

    def inventory(self, **more):
        """Writes the inventory; `more` are variables of single routers by name."""
        known = self.work / "known_hosts"
        known.write_text("".join("%s %s" % (r.address, r.public_key()) for r in self.routers))
        hosts = {
            r.name: dict(ansible_host=r.address, linerate_program=str(r.program)) | more.get(r.name, {})
            for r in self.routers
        }
        path = self.work / "inventory.json"
        everywhere = dict(
            ansible_user="root",
            ansible_ssh_private_key_file=str(self.key),
            ansible_ssh_common_args="-F none -o UserKnownHostsFile=%s" % known,
            # No Python there: whatever wants one fails.
            ansible_python_interpreter="/nonexistent/python",
        )
        path.write_text(json.dumps({"routers": {"hosts": hosts, "vars": everywhere}}))
        return path

    def environment(self):
        """The environment of ansible."""
        (self.work / "cp").mkdir(exist_ok=True)
        return dict(
            os.environ,
            ANSIBLE_COLLECTIONS_PATH=str(self.collections),
            PWD=str(self.work),
            ANSIBLE_HOME=str(self.work / "home"),
            ANSIBLE_LOCAL_TEMP=str(self.work / "tmp"),
            ANSIBLE_HOST_KEY_CHECKING="True",
            ANSIBLE_SSH_CONTROL_PATH_DIR=str(self.work / "cp"),
            ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default",
            ANSIBLE_NOCOLOR="1",
            ANSIBLE_RETRY_FILES_ENABLED="0",
            ANSIBLE_FORKS="10",
            ANSIBLE_TIMEOUT="5",
            ANSIBLE_DEPRECATION_WARNINGS="0",
            ANSIBLE_LOCALHOST_WARNING="0",
        )

    def start(self, playbook, *words, **variables):
        """Starts a playbook: the text of one, or the name of one of the collection's."""
        if "\n" in playbook:
            path = self.work / "playbook.yml"
            path.write_text(playbook)
            playbook = path
        if not (self.work / "inventory.json").exists():
            self.inventory()
        command = ["ansible-playbook", "-i", self.work / "inventory.json", playbook, *words]
        command += ["-e", json.dumps(variables)]
        log = open(self.work / "log", "wb")
        return subprocess.Popen(
            [str(word) for word in command],
            env=self.environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=self.work,
            start_new_session=True,
        )

    def play(self, playbook, *words, code=0, **variables):
        """Runs a playbook to its end, which must be with that exit code; gives what it printed."""
        return self.ended(self.start(playbook, *words, **variables), code)

    def ended(self, process, code=0):
        """Waits for the end of a playbook, which must be with that exit code; gives what it printed."""
        try:
            ended = process.wait(timeout=600)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        told = (self.work / "log").read_text()
        # Where routers are in no state, the code is that of ansible for it.
        assert code is None or ended == code, "exit code %d\n%s" % (ended, told)
        return told

    def start_task(self, module, *words, hosts="routers", **arguments):
        """Starts a playbook of one module on the routers."""
        play = {
            "hosts": hosts,
            "gather_facts": False,
            "tasks": [
                {
                    "linerate.router.%s" % module: dict(arguments, program="{{ linerate_program }}"),
                    "register": "told",
                    "ignore_errors": True,
                    "ignore_unreachable": True,
                },
                {
                    "ansible.builtin.copy": {
                        "content": "{{ told | to_json }}",
                        "dest": "%s/told-{{ inventory_hostname }}.json" % self.work,
                    },
                    "delegate_to": "localhost",
                    "check_mode": False,
                    "diff": False,
                    "vars": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                    },
                },
            ],
        }
        for old in self.work.glob("told-*.json"):
            old.unlink()
        return self.start(json.dumps([play], indent=1), *words)

    def ended_task(self, process):
        """Waits for its end; gives the results by router, as ansible has them."""
        self.printed = self.ended(process)
        paths = {r.name: self.work / ("told-%s.json" % r.name) for r in self.routers}
        return {name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()}

    def task(self, module, *words, **arguments):
        """Runs one module on the routers; gives the results by router, as ansible has them."""
        return self.ended_task(self.start_task(module, *words, **arguments))
