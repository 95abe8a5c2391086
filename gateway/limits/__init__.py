"""How much at once, and how much one tenant may have.

quotas    what one tenant may have
room      what one request takes of that
standing  how much of that it has, as one gateway knows it
rates     how many writes a second
places    so many at once, and no more, with a share for each tenant
intake    so many bytes of large bodies at a time, and who comes later waits
unsent    so many bytes of long answers that clients have not read
work_thread  models and previews are worked on one at a time, beside the requests, tenants by turns
"""
