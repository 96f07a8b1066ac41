"""What the threads of a stress test count, and the problems that they find."""
import threading
import time

problems = []
stats = {}
lock = threading.Lock()


def count(key):
    with lock:
        stats[key] = stats.get(key, 0) + 1


def problem(text):
    with lock:
        problems.append(text)
    print(time.strftime("%H:%M:%S"), "PROBLEM", text, flush=True)
