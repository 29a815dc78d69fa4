"""AG-UI 1.0: what its clients ask for, in terms of threads, runs and interrupts.

    RunAgentInput ──► answers to a run that waits ──► its next segment
                └───► the place in the tree that its messages agree with ──► a run that continues or forks there

A client sends its whole conversation each time. What of it is known says where the run begins, the rest is its input.
"""
