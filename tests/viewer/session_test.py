#!/usr/bin/env python3
"""Uses the viewer as a person does: the real program, mouse and keyboard by xdotool.

usage: session_test.py VIEWER SAMPLE_BUNDLE_PROGRAM, under scripts/viewer_session.sh
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 60  # Software rendering on a busy machine.
REPEAT_S = 4


def xdotool(*arguments):
    subprocess.run(["xdotool", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


class Session:
    """One run of the viewer; `state` is what it last said about itself."""

    def __init__(self, viewer, folder, *arguments):
        self.state_path = folder / "state.json"
        self.state_path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            [viewer, *map(str, arguments), "--dump-state", str(self.state_path)], cwd=folder)
        self.state = {}
        self.wait("opens", lambda s: not s["is_busy"])
        window = subprocess.run(["xdotool", "search", "--sync", "--pid", str(self.process.pid)],
                                check=True, capture_output=True, text=True).stdout.split()[-1]
        # Without a window manager nobody gives it the keyboard.
        xdotool("windowfocus", "--sync", window)
        self.window = window

    def wait(self, what, condition, again=None):
        """Until the state is as it should be; else fails with the state.

        `again` is called every few seconds: where frames take longer than people's fingers, ImGui 1.86
        sees two clicks as one.
        """
        begin = time.monotonic()
        num_repeats = 0
        while time.monotonic() < begin + TIMEOUT_S:
            if again and time.monotonic() > begin + REPEAT_S * (num_repeats + 1):
                num_repeats += 1
                again()
            if self.process.poll() is not None:
                raise SystemExit(f"{what}: the viewer exited with {self.process.returncode}")
            try:
                self.state = json.loads(self.state_path.read_text())
                if condition(self.state):
                    print("ok:", what, flush=True)
                    return
            except (FileNotFoundError, json.JSONDecodeError):
                pass
            time.sleep(0.02)
        shown = {key: value for key, value in self.state.items() if key != "marks"}
        raise SystemExit(f"{what}: did not happen; state: {json.dumps(shown, indent=1)}")

    def centre(self, mark):
        self.wait(f"{mark} on the screen", lambda s: mark in s["marks"])
        left, top, right, bottom = self.state["marks"][mark]
        return (left + right) // 2, (top + bottom) // 2

    def move(self, x, y):
        xdotool("mousemove", "--window", self.window, x, y)

    def click(self, mark, times=1):
        self.move(*self.centre(mark))
        xdotool("click", "--repeat", times, "--delay", 90, 1)

    def act(self, what, action, condition):
        action()
        self.wait(what, condition, again=action)

    def search(self, text):
        self.key("slash")
        self.wait("/ leads to the search field", lambda s: s["has_text_cursor"], again=lambda: self.key("slash"))
        xdotool("type", "--delay", 40, text)

    def key(self, name):
        """As long as a person holds it: ImGui 1.86 does not see keys that go down and up within a frame."""
        *modifiers, last = name.split("+")
        for modifier in modifiers:
            xdotool("keydown", modifier)
        xdotool("keydown", last)
        time.sleep(0.12)
        xdotool("keyup", last)
        for modifier in modifiers:
            xdotool("keyup", modifier)

    def quit(self):
        self.key("ctrl+q")
        code = self.process.wait(timeout=TIMEOUT_S)
        if code != 0:
            raise SystemExit(f"quit: exit code {code}")
        print("ok: quit", flush=True)


def check(is_true, what):
    if not is_true:
        raise SystemExit(f"FAILED: {what}")
    print("ok:", what, flush=True)


def cpu_s(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def clipboard(session):
    """What was copied: pasted into the search field's neighbour would need a second program."""
    for command in (["xclip", "-o", "-selection", "clipboard"], ["xsel", "-ob"]):
        try:
            return subprocess.run(command, check=True, capture_output=True, text=True, timeout=10).stdout
        except (FileNotFoundError, subprocess.SubprocessError):
            continue
    return None


def tour(viewer, folder):
    session = Session(viewer, folder, "sample")
    state = lambda: session.state  # noqa: E731
    check(state()["document"]["arms"] == ["baseline", "optimizer=fused", "checkpoint=full"],
          "the bundle's arms are there")
    check(state()["panel"] == "matrix", "the matrix comes first")

    session.act("a row selects its arm", lambda: session.click("matrix/checkpoint=full"),
                lambda s: s["selection"]["arm_b"] == "checkpoint=full")
    session.act("a header sorts", lambda: session.click("matrix/Tokens/s"),
                lambda s: s["panels"]["matrix"]["sort_column"] == "Tokens/s")

    session.search("fused")
    session.wait("search filters the matrix", lambda s: s["panels"]["matrix"]["rows"] == ["optimizer=fused"])
    session.act("CSV is copied", lambda: session.click("copy_csv"),
                lambda s: s["notice"] == "1 rows copied")
    text = clipboard(session)
    if text is not None:
        check(text.splitlines()[1].startswith("optimizer=fused,"), "the clipboard has the row")

    session.act("a double click leads to the breakdown", lambda: session.click("matrix/optimizer=fused", times=2),
                lambda s: s["panel"] == "breakdown")
    session.wait("the traces are broken down", lambda s: s["panels"]["breakdown"]["waterfall"])
    waterfall = state()["panels"]["breakdown"]["waterfall"]
    # The optimizer's kernel is 40 us shorter, and nothing else changes.
    check(waterfall == {"difference_ns": -40000, "rows": [{"key": "optimizer", "difference_ns": -40000}]},
          "the waterfall sums to the difference")
    session.act("a bar stands out everywhere", lambda: session.click("waterfall.optimizer"),
                lambda s: s["selection"]["highlight"]["key"] == "optimizer")
    session.wait("its kernels are listed", lambda s: s["panels"]["breakdown"]["num_kernels"] == 1)
    session.act("a kernel's double click leads to the timeline",
                lambda: session.click("kernel_changes/multi_tensor_apply_adam", times=2),
                lambda s: s["panel"] == "timeline")
    check(state()["selection"]["highlight"] == {"kind": "kernel", "key": "multi_tensor_apply_adam"},
          "the kernel is highlighted there")
    session.wait("the traces are loaded", lambda s: not s["is_busy"] and all(
        t["is_loaded"] for t in s["document"]["traces"]
        if t["arm"] in ("baseline", "optimizer=fused") and not t["is_memory_run"]))
    timeline(session)

    xdotool("type", "?")
    session.wait("? shows the keys", lambda s: s["shows_help"])
    session.act("Escape hides them", lambda: session.key("Escape"), lambda s: not s["shows_help"])
    session.act("the theme changes", lambda: session.key("ctrl+t"), lambda s: s["theme"] == "light")
    session.act("a picture is saved", lambda: session.key("ctrl+s"),
                lambda s: s["notice"].startswith("Saved "))
    check((folder / "sample-timeline.png").stat().st_size > 1000, "the picture is there")

    session.move(5, 895)
    time.sleep(6)  # Notices go, then nothing changes any more.
    before_s, begin = cpu_s(session.process), time.monotonic()
    time.sleep(4)
    share = (cpu_s(session.process) - before_s) / (time.monotonic() - begin)
    check(share < 0.01, f"idle CPU is {100 * share:.2f} %")
    session.quit()


def timeline(session):
    """Zoom by wheel and key, pan by dragging."""
    view = lambda s: s["panels"]["timeline"]  # noqa: E731
    session.search("adam")
    session.wait("search finds kernels", lambda s: view(s)["num_hits"] > 0)
    session.act("Escape leaves the field", lambda: session.key("Escape"),
                lambda s: not s["has_text_cursor"])
    before = view(session.state)
    session.move(800, 500)
    xdotool("click", "--repeat", 3, "--delay", 60, 4)
    session.wait("the wheel zooms in", lambda s: view(s)["ns_per_px"] < before["ns_per_px"])
    before = view(session.state)
    session.move(800, 500)
    xdotool("mousedown", 1)
    for x in (780, 740, 700):
        session.move(x, 500)
        time.sleep(0.05)
    xdotool("mouseup", 1)
    session.wait("dragging pans", lambda s: view(s)["start_ns"] != before["start_ns"])
    before = view(session.state)
    session.act("S zooms out", lambda: session.key("s"),
                lambda s: view(s)["ns_per_px"] > before["ns_per_px"])


def second_start(viewer, folder):
    """Settings and the recent list are back; a missing file has its message in the window."""
    session = Session(viewer, folder)
    check(session.state["theme"] == "light", "the theme is remembered")
    check(session.state["panel"] == "timeline", "the panel is remembered")
    check(session.state["recent"][0].endswith("/sample"), "the document is in the recent list")
    session.act("a recent document opens", lambda: session.click("recent.0"),
                lambda s: s["document"] is not None and not s["is_busy"])
    session.act("Ctrl O shows the start page", lambda: session.key("ctrl+o"),
                lambda s: s["shows_start_page"])
    session.act("the field has the cursor", lambda: session.click("path"),
                lambda s: s["has_text_cursor"])
    xdotool("type", "--delay", 40, "nowhere")
    session.act("a missing file has a clear message", lambda: session.click("open_path"),
                lambda s: s["error"] == "nowhere: does not exist")
    session.quit()


def main():
    viewer, sample_program = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="steplens-session-") as name:
        folder = pathlib.Path(name)
        subprocess.run([sample_program, str(folder / "sample")], check=True)
        tour(viewer, folder)
        second_start(viewer, folder)


if __name__ == "__main__":
    main()
