"""Entry of the cockpit. Small, so that what is dear to import comes only when a screen is really shown."""

from __future__ import annotations

import gc
from pathlib import Path


def run_app(path: Path | None, *, start_engine: bool = False, replay: bool = False) -> int:
    """Show the cockpit until the person leaves; the exit status.

    `path`: a lab's folder, or a recording with `replay`; None shows the list of labs. Needs a terminal.
    """
    # Nothing that is made on the way to the first frame is garbage: looking for it costs a tenth of it.
    gc.disable()
    from kernel_lab.tui.cockpit import LabApp
    from kernel_lab.tui.sources import LabSource, ReplaySource
    from kernel_lab.tui.text import one_line

    source: LabSource | ReplaySource | None = None
    if path is not None:
        source = ReplaySource(path) if replay else LabSource(path)
    app = LabApp(source, start_engine=start_engine)
    farewell = app.run()
    if farewell:
        print(one_line(farewell))
    return app.return_code or 0
