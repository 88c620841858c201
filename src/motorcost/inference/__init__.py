"""The experimenter's problem (section 3 of the paper): filter, likelihood, beliefs.

In reading order:

- `agreement`: whether trials agree with a problem and its observer.
- `grouping`: from what a user hands in to groups of trials that share problems.
- `elimination`: condition a Gaussian on one sample, channel by channel; contradictions.
- `structure`: what can be known of problems before a program is compiled.
- `filter`: the filter over state and belief, for any observer.
- `fully_observed`: the same, faster, where every state is recorded without noise.
- `batching`: run a filter over models, conditions and blocks of trials.
- `precision`: whether the digits of a log likelihood are lost.
- `likelihood`: `log_likelihood`, and the log likelihoods at many points that fitting needs.
- `beliefs`: `track_beliefs`, filtered and smoothed.
- `resampling`, `signals`, `adapted_draws`: what particle filters draw. `particle_filter`: the exact
  likelihood, for any observer; `fully_observed_particles`: the same, faster, for full observation.
- `particle_groups`: run them over models, conditions and blocks; `averages`: average their
  estimates; `particles`: `exact_log_likelihood`.
- `diagnose`: errors that name the policy that was not found or the sample that contradicts.
"""
