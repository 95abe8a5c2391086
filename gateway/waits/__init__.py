"""Those who wait.

later          of who waits, no more is kept than the answer needs
waiter         each of them, and all who wait at one gateway
timer_ends     until a timer has ended
instance_ends  until an instance has ended
task_lines     for service tasks, one after the other
"""
