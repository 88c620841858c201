"""Recordings before they are on a model's grid, in the order of reading.

- `movements`: `Movements`, recordings of several trials, each with its own times.
- `joining`: sets of movements joined.
- `kinematics`: speeds, movements within a recording, and lines from start to goal, of one trial.
- `steps`: cutting movements out, and turning them onto the line to their goal.
- `measures`: how long, how far and how fast movements are, and how near to the goal they end.
- `grid`: placing recordings on the grid of a model.
"""
