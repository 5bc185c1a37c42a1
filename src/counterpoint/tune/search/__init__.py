"""The search: arms are compiled for the target, simulated and ranked before anything runs.

Read search.py first, which has all stages in order. grid.py has the points of a space; stages.py
and proposer.py choose among them; predictor.py compiles and simulates the chosen ones, and
predicted_step.py compares the results, which leaderboard.py ranks. minimal_winner.py and
shortlist.py select the few arms that are worth a measurement.
"""
