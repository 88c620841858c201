"""Whole posteriors: priors and samplers around the log likelihood of `fitting`.

In the order of reading:

- `priors`: of the package or NumPyro's. `target`: the posterior density that samplers see.
- `laplace`: its maxima and their curvature. `nuts`: NumPyro's sampler, on all cores. `smc`:
  tempered sequential Monte Carlo. `modes`: which explanation each draw belongs to.
- `maxima`: where samplers begin. `kept`: what is done so far, on disk.
- `sampling`: `sample`. `arviz_groups`: draws as ArviZ opens them. `words`: what to know of them.
  `result`: `Posterior`.
- `population`: the density of a group of people. `own_trials`: what each one's trials tell.
  `people`: sampling them.
- `likelihoods`: the likelihood of trials in a NumPyro model of one's own.
- `calibration`: do posteriors contain the truth as often as they say? `calibrated`: the answer.
"""
