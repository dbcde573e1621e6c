"""The load of the machine during a trial: what other processes use, and not what the trial's program uses."""

import subprocess
import sys
import time

from fairbench.training.machine_load import LoadMeter

SPIN = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"


def test_the_work_of_the_program_is_no_other_load():
    meter = LoadMeter()
    subprocess.run([sys.executable, "-S", "-c", SPIN], check=True)
    own = meter.read().others
    with_other = LoadMeter()
    other = subprocess.Popen([sys.executable, "-S", "-c", SPIN])
    time.sleep(0.01)
    while other.poll() is None:  # its work counts only after it was waited for
        load = with_other.read().others
        time.sleep(0.05)
    assert own < load
