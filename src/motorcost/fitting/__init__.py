"""Maximum likelihood: from a task, trials and what is free to estimates with error bars.

In the order of reading:

- `specification`: checks of what a user asks for, -> `objective`: the log likelihood as a function
  of a point, of one data set or of many.
- `batching`: the objective at any number of points, in batches of one compiled size.
- `starts`: where searches begin. `optimise`: searches by gradients, all in step.
  `derivative_free`: adapters of Nelder-Mead and BOBYQA.
- `maxima`: which ends of searches are the same maximum, and where to look again. `polishing`:
  Newton's last steps, and a check of maxima at the scale of a standard error.
- `engine`: from starts to maxima, whether of one data set or of thousands.
- `information`: standard errors, directions that the data leave open. `intervals`: of confidence.
  `nearby`: what searches came by (`visited`) beyond these.
- `estimate`: `fit`. `fitted`: `Fit`, with `local_maximum` (other explanations), `profiles`,
  `prediction` and `presenting`. `leads`: how long before the first sample the model begins,
  and `delays`: how late the senses are, compared. `settled`: what a fit must have reached before
  something is said of it.
- `recovery`: data sets simulated and fitted, many at once. `baselines`: the paper's two.
- `progress`: how long work reports how far it is.
"""
