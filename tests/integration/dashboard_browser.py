#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `spate dashboard` in a headless Chromium: clicks, keys, a narrow window, dark and light, a wrong token.
  dashboard_browser.py [FOLDER]     also writes pictures of the page into the folder"""
import os
import shutil
import subprocess
import sys

sys.path.append(sys.path.pop(0))  # or else Selenium would import copy.py of this folder instead of Python's own

from cluster import SPATE, Cluster, check, skip, wait_until  # noqa: E402
from dashboard import dashboard  # noqa: E402

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    skip("needs python3-selenium")
if not shutil.which("chromedriver") or not shutil.which("chromium"):
    skip("needs chromium and chromium-driver")

PICTURES = sys.argv[1] if len(sys.argv) > 1 else None
WILD = "<img src=x onerror=document.title='pwned'>"


def browser(profile, dark=False):
    """The browser's home folder is its profile: it leaves nothing in the user's own."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--user-data-dir=" + profile):
        options.add_argument(word)
    if dark:
        options.add_argument("--force-dark-mode")
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=webdriver.chrome.service.Service(shutil.which("chromedriver"), env=dict(os.environ, HOME=profile)), options=options)


class Page:
    def __init__(self, driver, url):
        self.driver, self.url = driver, url

    def one(self, css):
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css):
        return self.driver.execute_script("return document.querySelector(arguments[0])?.textContent ?? ''", css)

    def click(self, css, text):
        """Clicks the first one whose text begins so. The page may put another one in its place just before the click."""
        def clicked():
            try:
                next(found for found in self.all(css) if found.text.startswith(text)).click()
                return True
            except (StaleElementReferenceException, StopIteration):
                return False

        wait_until(clicked, "%s is clicked" % text, 60)

    def wait(self, script, what):
        wait_until(lambda: self.driver.execute_script("return " + script), what, 60)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.driver.execute_script("return document.activeElement.outerHTML")

    def picture(self, name):
        if PICTURES:
            height = self.driver.execute_script("return document.documentElement.scrollHeight")
            size = self.driver.get_window_size()
            self.driver.set_window_size(size["width"], height + 140)
            self.driver.save_screenshot(os.path.join(PICTURES, name + ".png"))
            self.driver.set_window_size(size["width"], size["height"])


def starts(page):
    """The token disappears from the address at once, and the state appears."""
    page.driver.get(page.url)
    page.wait("document.getElementById('health').textContent.includes('4 servers up')", "the state is shown")
    check("token" not in page.driver.current_url, page.driver.current_url)
    check(len(page.all("#servers > li.up")) == 4 and len(page.all(".target")) == 3, page.text("#servers"))
    page.wait("document.querySelectorAll('#chart-bytes path').length === 2 && document.querySelector('#chart-bytes path').getAttribute('d').includes('L')", "the chart has lines")
    check("free" in page.text("#space-free"), page.text(".tiles"))


def shows_a_file(page):
    """Reaches a strip by clicks from the root (the directory, the file, the strip) and the next one by keys."""
    page.one("#path-form button").click()
    page.wait("[...document.querySelectorAll('.entries button')].some((b) => b.textContent.startsWith('striped'))", "the entries of the root")
    page.click(".entries button", "striped")
    page.wait("document.querySelectorAll('.strip').length === 5", "the strips of the file")
    check(len(page.all(".slot")) == 3 and [s.text for s in page.all(".slot:first-child .strip")] == ["0", "192K"], page.text("#layout"))
    page.all(".strip")[0].click()
    page.wait("document.querySelector('.detail').textContent.startsWith('Bytes 0 to 65,535')", "what a strip is")
    page.press(Keys.ARROW_RIGHT)
    page.wait("document.querySelector('.detail').textContent.startsWith('Bytes 196,608')", "the arrow goes to the next strip of the slot")
    page.press(Keys.ARROW_DOWN)
    page.wait("document.querySelector('.detail').textContent.startsWith('Bytes 262,144')", "and to the slot below")
    check(len(page.all(".strip[aria-pressed=true]")) == 1, "one strip is chosen")
    page.picture("file")


def works_by_keys(page):
    page.press("/")
    check('id="path"' in page.focused(), page.focused())
    page.press("/none", Keys.ENTER)
    page.wait("document.querySelector('#layout [role=alert]') !== null", "a path that there is not is told")
    check(page.text("#layout").startswith("/none: no such file"), page.text("#layout"))
    tab = page.one("#tab-job")
    tab.click()
    page.press(Keys.ARROW_LEFT)
    check('id="tab-file"' in page.focused() and page.one("#tab-file").get_attribute("aria-selected") == "true", page.focused())
    page.wait("[...document.querySelectorAll('#busiest .link')].some((b) => b.textContent === '/busy')", "the busy file is told")
    page.click("#busiest .link", "/busy")
    page.wait("document.getElementById('path').value === '/busy'", "a click on it takes its path")

    def lies():
        """The file is empty whenever the load has just begun to write it anew."""
        page.one("#path-form button").click()
        return page.driver.execute_script("return document.querySelectorAll('.strip').length > 0")

    wait_until(lies, "and shows where it lies", 60)
    page.one("#chart-bytes svg").send_keys(Keys.HOME)
    page.wait("!document.querySelector('#chart-bytes .legend').textContent.startsWith('now')", "a key chooses a time of the chart")
    page.one("#tab-file").click()
    page.press("p")
    check(page.one("#pause").get_attribute("aria-pressed") == "true", "p pauses")
    page.press("p")
    check(page.one("#pause").get_attribute("aria-pressed") == "false", "p goes on")


def a_slow_click_counts(page):
    """A button that is held down while the page learns something new is still there when it is let go."""
    page.one("#tab-file").click()
    page.wait("[...document.querySelectorAll('#busiest .link')].some((b) => b.textContent === '/busy')", "the busy file is told")
    held = next(b for b in page.all("#busiest .link") if b.text == "/busy")
    page.driver.execute_script("document.getElementById('path').value = ''")
    webdriver.ActionChains(page.driver).click_and_hold(held).perform()
    page.driver.execute_script("window.seen = 0; const f = window.fetch; window.fetch = (...a) => f(...a).finally(() => setTimeout(() => window.seen++, 50))")
    page.wait("window.seen >= 2", "the page asks twice while the button is down")
    webdriver.ActionChains(page.driver).release().perform()
    page.wait("document.getElementById('path').value === '/busy'", "the click counts")


def names_are_text(page):
    page.one("#path").clear()
    page.one("#path").send_keys("/", Keys.ENTER)
    page.wait("document.querySelector('.entries')?.textContent.includes('<img')", "a name with tags")
    check(page.driver.title != "pwned" and not page.all(".entries img"), "a name became part of the page")


def narrow(page):
    page.driver.set_window_size(380, 800)
    page.wait("document.documentElement.clientWidth <= 520", "a narrow window")
    wide = page.driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(wide <= 0, "the page is %d pixels wider than a narrow window" % wide)
    page.wait("[...document.querySelectorAll('.chart svg')].every((s) => Math.abs(s.getScreenCTM().a - 1) < 0.02 && Math.abs(s.getScreenCTM().d - 1) < 0.02)",
              "the letters of the charts are as wide as elsewhere")
    page.picture("narrow")
    page.driver.set_window_size(1280, 900)


def a_server_goes(page, fs):
    fs.kill(3)
    page.wait("document.getElementById('health').textContent.includes('1 of 4 servers down')", "a server that is gone is told")
    check(len(page.all("#servers > li.down")) == 1 and "server 3" in page.text("#servers > li.down"), page.text("#servers"))
    page.picture("down")
    fs.up()
    page.wait("document.getElementById('health').textContent.includes('4 servers up')", "it is back")


def a_wrong_token(page):
    page.driver.execute_script("sessionStorage.clear()")
    page.driver.get("about:blank")
    page.driver.get(page.url.split("#")[0] + "#token=0123")
    page.wait("!document.getElementById('token-form').hidden", "the token is asked for")
    page.wait("document.getElementById('trouble').textContent.includes('wrong token')", "and why")
    check(page.one("#main").get_attribute("hidden") is not None and not page.all("#servers > li"), "something is shown without a token")
    page.one("#token").send_keys(page.url.split("token=")[1], Keys.ENTER)
    page.wait("document.getElementById('health').textContent.includes('servers up')", "the right token opens the page")


def no_complaints(page):
    """The browser reports no failed script, and the page's security rules refused none of its own contents."""
    lines = [line["message"] for line in page.driver.get_log("browser") if line["level"] == "SEVERE"]
    wrong = [line for line in lines if not any(known in line for known in ("401", "404", "502"))]
    check(not wrong, wrong)


def brightness(page):
    colour = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    return sum(int(part) for part in colour[4:-1].split(","))


def prepare(fs):
    fs.spate("setstripe", "-S", "64K", "-c", "3", "spate:/striped")
    fs.spate("put", "spate:/striped", input=b"x" * (300 << 10))
    os.makedirs(fs.root + "/wild")
    open(os.path.join(fs.root, "wild", WILD), "w").close()
    fs.spate("cp", os.path.join(fs.root, "wild", WILD), "spate:/" + WILD)


def main():
    with Cluster(io=3) as fs:
        fs.up()
        prepare(fs)
        load = subprocess.Popen(["sh", "-c", 'while :; do head -c 9000000 /dev/urandom | "$0" put spate:/busy; "$0" cat spate:/busy > /dev/null; done', SPATE],
                                env=dict(fs.env, SPATE_CLIENT_TAG="climate-42"), start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            with dashboard(fs) as (port, token, _):
                url = "http://127.0.0.1:%d/#token=%s" % (port, token)
                for dark in (False, True):
                    driver = browser(fs.root + ("/dark" if dark else "/light"), dark)
                    try:
                        driver.set_window_size(1280, 900)
                        page = Page(driver, url)
                        starts(page)
                        check(brightness(page) < 200 if dark else brightness(page) > 600, "dark: %s, but the page's brightness is %d" % (dark, brightness(page)))
                        shows_a_file(page)
                        works_by_keys(page)
                        page.picture("dark" if dark else "light")
                        if not dark:
                            a_slow_click_counts(page)
                            names_are_text(page)
                            narrow(page)
                            a_server_goes(page, fs)
                            a_wrong_token(page)
                        no_complaints(page)
                    finally:
                        driver.quit()
        finally:
            os.killpg(load.pid, 9)
            load.wait()


main()
