"""An analysis in a file: settings, preparation, what was found.

In the order of reading:

- `schema`: the tables and keys of a study file, -> `document`: reading it -> `file`: what the
  schema cannot decide -> `settings`: `Study`. `named_texts`: names and values as text.
  `task_lookup`: tasks by name. `template`, `template_data`: the file that `motorcost init` writes.
- `preparation`: from recordings to what a model takes, with `selection` and `leaving_out`.
- `positions`: which channels are positions, -> `overview`: `look`, with `suspicions`: what looks
  wrong. `doubts`: the same of trials that are on a grid.
- `analysis`: `analyse`. `cuts`: do estimates depend on how movements were cut?
- `result`: `fit.json`, with `result_schema`. `folder`: the folder of a fit.
"""
