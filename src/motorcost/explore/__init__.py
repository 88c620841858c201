"""A page in the browser to play with: `motorcost explore`.

- knobs: the sliders of a task: what they set, and over which range.
- scene: what an agent does with the sliders where they are: movements, gains, costs.
- recordings: files that the page may open, and what is read from them.
- likelihood: how probable recordings are, and what the agent believed in one movement.
- workers: computing beside the page: the latest request only, and one fit at a time.
- shown: what the page shows, as one value.
- exports, python_lines: the study file, the figure and the Python lines of it.
- figures, controls, opening, panels, fitting, page: what is seen, made with Panel and Bokeh.
- server: serving the page on this machine only.
"""
