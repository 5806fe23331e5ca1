// A click on the extension's button opens the panel.
chrome.sidePanel.setPanelBehavior({ openPanelOnActionClick: true });
